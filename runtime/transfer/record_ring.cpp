#include "transfer/record_ring.hpp"

#include "base/check.hpp"

namespace gpurun::transfer {

namespace {

constexpr size_t kRing = platform::kRingBytes;
constexpr size_t kAlign = 16;
static_assert(kRing % kAlign == 0 && sizeof(Record) % kAlign == 0);
// A record and the unused end before it always fit.
static_assert(2 * (sizeof(Record) + kLargestInline) <= kRing);

constexpr size_t entry_bytes(size_t payload) { return (sizeof(Record) + payload + kAlign - 1) / kAlign * kAlign; }

} // namespace

bool RingProducer::push(const Record& record, std::span<const std::byte> payload) {
    CHECK(payload.size() <= kLargestInline);
    uint64_t tail = control_.ring_tail.load(std::memory_order_relaxed); // ours
    const size_t bytes = entry_bytes(payload.size());
    const size_t to_end = kRing - tail % kRing;
    const size_t skip = to_end < bytes ? to_end : 0;
    if (tail + skip + bytes - head_seen_ > kRing) {
        // Acquire: the consumer has finished with what lies before its head.
        head_seen_ = control_.ring_head.load(std::memory_order_acquire);
        if (tail + skip + bytes - head_seen_ > kRing)
            return false;
    }
    if (skip != 0) {
        const auto kind = RecordKind::kSkip;
        std::memcpy(ring_ + tail % kRing, &kind, sizeof kind);
        tail += skip;
    }
    std::byte* place = ring_ + tail % kRing;
    std::memcpy(place, &record, sizeof record);
    const auto length = static_cast<uint32_t>(payload.size());
    std::memcpy(place + offsetof(Record, payload_bytes), &length, sizeof length);
    if (!payload.empty())
        std::memcpy(place + sizeof record, payload.data(), payload.size());
    // Release: publishes the entry; pairs with the consumer's acquire in front().
    control_.ring_tail.store(tail + bytes, std::memory_order_release);
    return true;
}

const Record* RingConsumer::front() {
    if (head_ == tail_seen_) {
        tail_seen_ = control_.ring_tail.load(std::memory_order_acquire);
        if (head_ == tail_seen_)
            return nullptr;
    }
    const auto* record = reinterpret_cast<const Record*>(ring_ + head_ % kRing);
    if (record->kind == RecordKind::kSkip) {
        head_ += kRing - head_ % kRing;
        return front();
    }
    return record;
}

std::span<const std::byte> RingConsumer::payload() const {
    const auto* record = reinterpret_cast<const Record*>(ring_ + head_ % kRing);
    return {reinterpret_cast<const std::byte*>(record + 1), record->payload_bytes};
}

uint64_t RingConsumer::pop() {
    const size_t bytes = entry_bytes(payload().size());
    head_ += bytes;
    // Release: the producer may overwrite what was read; pairs with its acquire in push().
    control_.ring_head.store(head_, std::memory_order_release);
    return bytes;
}

} // namespace gpurun::transfer
