#include "contents.hpp"

#include "call.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::bench {

namespace {

constexpr size_t kPiece = size_t{4} << 20; // long messages are made and checked in pieces of this size

} // namespace

Contents::Contents(int rank) : rank_(rank), expected_(kPiece), read_(kPiece), sums_(kPiece / sizeof(float)) {}

void Contents::write_made(void* buffer, size_t bytes, const Make& make) {
    for (size_t offset = 0; offset < bytes; offset += kPiece) {
        const size_t piece = std::min(kPiece, bytes - offset);
        make({expected_.data(), piece}, offset);
        CALL(gpurun_memcpy(static_cast<unsigned char*>(buffer) + offset, expected_.data(), piece, GPURUN_HOST));
    }
}

void Contents::check_made(const void* buffer, size_t bytes, const std::string& what, const Make& make) {
    for (size_t offset = 0; offset < bytes; offset += kPiece) {
        const size_t piece = std::min(kPiece, bytes - offset);
        make({expected_.data(), piece}, offset);
        CALL(gpurun_memcpy(read_.data(), static_cast<const unsigned char*>(buffer) + offset, piece, GPURUN_HOST));
        if (std::memcmp(read_.data(), expected_.data(), piece) == 0)
            continue;
        const auto end = expected_.begin() + static_cast<ptrdiff_t>(piece);
        const auto [wanted, got] = std::mismatch(expected_.begin(), end, read_.begin());
        std::fprintf(stderr, "gpurun-perf: rank %d: %s, %zu bytes: byte %zu is 0x%02x, expected 0x%02x\n", rank_,
                     what.c_str(), bytes, offset + static_cast<size_t>(wanted - expected_.begin()), *got, *wanted);
        gpurun_abort(1);
    }
}

void Contents::make_sums(std::span<unsigned char> piece, size_t offset, int first_rank, int end_rank, uint64_t number) {
    const std::span<float> sums(sums_.data(), piece.size() / sizeof(float));
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int rank = first_rank; rank < end_rank; ++rank)
        add_terms(sums, seed_of(rank, number), offset / sizeof(float));
    std::memcpy(piece.data(), sums.data(), piece.size());
}

void Contents::write(void* buffer, size_t bytes, int sender, uint64_t number) {
    const uint64_t seed = seed_of(sender, number);
    write_made(buffer, bytes, [&](std::span<unsigned char> piece, size_t offset) { fill(piece, seed, offset); });
}

void Contents::check(const void* buffer, size_t bytes, int sender, uint64_t number) {
    const uint64_t seed = seed_of(sender, number);
    check_made(buffer, bytes, "message " + std::to_string(number) + " from rank " + std::to_string(sender),
               [&](std::span<unsigned char> piece, size_t offset) { fill(piece, seed, offset); });
}

void Contents::write_terms(void* buffer, size_t bytes, int rank, uint64_t number) {
    write_made(buffer, bytes, [&](std::span<unsigned char> piece, size_t offset) {
        make_sums(piece, offset, rank, rank + 1, number);
    });
}

void Contents::check_sums(const void* buffer, size_t bytes, size_t offset, int ranks, uint64_t number) {
    check_made(
        buffer, bytes, "sum " + std::to_string(number) + " of " + std::to_string(ranks) + " ranks",
        [&](std::span<unsigned char> piece, size_t within) { make_sums(piece, offset + within, 0, ranks, number); });
}

} // namespace gpurun::bench
