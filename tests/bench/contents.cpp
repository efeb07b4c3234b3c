#include "contents.hpp"

#include "call.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::bench {

namespace {

constexpr size_t kPiece = size_t{4} << 20; // long messages are made and checked in pieces of this size

} // namespace

Contents::Contents(int rank) : rank_(rank), expected_(kPiece), read_(kPiece) {}

void Contents::write(void* buffer, size_t bytes, int sender, uint64_t number) {
    for (size_t offset = 0; offset < bytes; offset += kPiece) {
        const size_t piece = std::min(kPiece, bytes - offset);
        fill({expected_.data(), piece}, seed_of(sender, number), offset);
        CALL(gpurun_memcpy(static_cast<unsigned char*>(buffer) + offset, expected_.data(), piece, GPURUN_HOST));
    }
}

void Contents::check(const void* buffer, size_t bytes, int sender, uint64_t number) {
    for (size_t offset = 0; offset < bytes; offset += kPiece) {
        const size_t piece = std::min(kPiece, bytes - offset);
        fill({expected_.data(), piece}, seed_of(sender, number), offset);
        CALL(gpurun_memcpy(read_.data(), static_cast<const unsigned char*>(buffer) + offset, piece, GPURUN_HOST));
        if (std::memcmp(read_.data(), expected_.data(), piece) == 0)
            continue;
        const auto end = expected_.begin() + static_cast<ptrdiff_t>(piece);
        const auto [wanted, got] = std::mismatch(expected_.begin(), end, read_.begin());
        std::fprintf(
            stderr, "gpurun-perf: rank %d: message %llu from rank %d, %zu bytes: byte %zu is 0x%02x, expected 0x%02x\n",
            rank_, static_cast<unsigned long long>(number), sender, bytes,
            offset + static_cast<size_t>(wanted - expected_.begin()), *got, *wanted);
        gpurun_abort(1);
    }
}

} // namespace gpurun::bench
