#include "transfer/protocol/shared_copy.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace gpurun::transfer {

namespace {

// In CopyClaims::taken, from the low end.
struct Claims {
    uint32_t front;  // 20 bits: units that the target has taken
    uint32_t back;   // 20 bits: the first that the source has taken
    uint32_t number; // 24 bits: of the message
};
constexpr uint64_t kMask = (1u << 20) - 1;
constexpr uint32_t kNumbers = 1u << 24;

Claims unpack(uint64_t word) {
    return {static_cast<uint32_t>(word & kMask), static_cast<uint32_t>(word >> 20 & kMask),
            static_cast<uint32_t>(word >> 40)};
}
uint64_t pack(const Claims& claims) {
    return uint64_t{claims.number} << 40 | uint64_t{claims.back} << 20 | claims.front;
}

// In CopyClaims::written, beside the number of units.
constexpr uint64_t kFailed = uint64_t{1} << 63;

} // namespace

SharedCopy SharedCopy::begin(platform::CopyClaims& claims, uint64_t bytes) {
    const uint32_t last = unpack(claims.taken.load(std::memory_order_relaxed)).number;
    SharedCopy copy(claims, bytes, (last + 1) % kNumbers);
    GPURUN_ASSERT(bytes <= kMostSharedBytes);
    claims.written.store(0, std::memory_order_relaxed);
    // Release: a source that takes a piece of this message adds to the 0 above.
    claims.taken.store(pack({0, units(bytes), copy.number_}), std::memory_order_release);
    return copy;
}

std::optional<SharedCopy::Piece> SharedCopy::take(bool front) {
    uint64_t word = claims_->taken.load(std::memory_order_acquire);
    while (true) {
        Claims claims = unpack(word);
        if (claims.number != number_ || claims.front >= claims.back)
            return std::nullopt;
        const uint32_t count = std::clamp((claims.back - claims.front) / 2, 1u, kMostPieceUnits);
        const uint32_t first = front ? claims.front : claims.back - count;
        (front ? claims.front : claims.back) = front ? first + count : first;
        if (claims_->taken.compare_exchange_weak(word, pack(claims), std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) {
            const uint64_t offset = first * kSharedUnitBytes;
            return Piece{offset, std::min(count * kSharedUnitBytes, bytes_ - offset)};
        }
    }
}

std::optional<SharedCopy::Piece> SharedCopy::take_front() { return take(true); }
std::optional<SharedCopy::Piece> SharedCopy::take_back() { return take(false); }

void SharedCopy::written(const Piece& piece, bool well) {
    if (!well)
        claims_->written.fetch_or(kFailed, std::memory_order_relaxed);
    // Release: publishes the piece's bytes, or that there are none; pairs with complete().
    claims_->written.fetch_add(units(piece.bytes), std::memory_order_release);
}

void SharedCopy::close() {
    while (take_front()) {
    }
}

bool SharedCopy::complete() const {
    const uint32_t back = unpack(claims_->taken.load(std::memory_order_acquire)).back;
    return (claims_->written.load(std::memory_order_acquire) & ~kFailed) == units(bytes_) - back;
}

bool SharedCopy::failed() const { return (claims_->written.load(std::memory_order_relaxed) & kFailed) != 0; }

uint64_t SharedCopy::front_end() const {
    return std::min(bytes_, unpack(claims_->taken.load(std::memory_order_relaxed)).back * kSharedUnitBytes);
}

} // namespace gpurun::transfer
