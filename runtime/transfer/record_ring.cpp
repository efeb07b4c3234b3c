#include "transfer/record_ring.hpp"

#include "base/check.hpp"

#include <atomic>
#include <bit>

namespace gpurun::transfer {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kEntries = platform::kRingEntryBytes;
constexpr size_t kPayloads = platform::kRingBytes - kEntries;
constexpr size_t kLargestWithRecord = 96; // then the head of an inline message and its payload take two lines
constexpr size_t kAhead = 4 * kLine;      // how far ahead of the producer its lines are asked for
constexpr size_t kGiveBack = 4;           // parts of each that are given back at once

constexpr size_t lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
constexpr bool stays_with_record(size_t payload) { return payload <= kLargestWithRecord; }
constexpr size_t entry_bytes(RecordKind kind, size_t payload) {
    return lines(head_bytes(kind) + (stays_with_record(payload) ? payload : 0));
}
constexpr size_t payload_bytes(size_t payload) { return stays_with_record(payload) ? 0 : lines(payload); }

// The largest, and the unused end before it, always fit in what an idle consumer has given back.
static_assert(2 * (sizeof(Record) + kLargestWithRecord + kLine) + kEntries / kGiveBack <= kEntries);
static_assert(2 * kLargestInline + kPayloads / kGiveBack <= kPayloads);
static_assert(kEntries % kLine == 0 && kPayloads % kLine == 0 && std::endian::native == std::endian::little);
static_assert(offsetof(Record, kind) == 0 && offsetof(Record, payload_bytes) == 4);

std::atomic_ref<uint64_t> first_word(std::byte* place) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(place));
}
constexpr uint64_t word_of(RecordKind kind, size_t payload) {
    return static_cast<uint64_t>(kind) | uint64_t{payload} << 32;
}

} // namespace

bool RingProducer::push(const Record& record, std::span<const std::byte> payload) {
    CHECK(payload.size() <= kLargestInline);
    const size_t head = head_bytes(record.kind);
    const size_t bytes = entry_bytes(record.kind, payload.size());
    const size_t apart = payload_bytes(payload.size());
    RingPlace entry = entries_;
    RingPlace body = payloads_;
    entry.fit(bytes, kEntries);
    if (apart != 0)
        body.fit(apart, kPayloads);
    const auto full = [&] {
        return entry.position + bytes - entries_free_ > kEntries || body.position + apart - payloads_free_ > kPayloads;
    };
    if (full()) {
        // Acquire: the consumer has finished with what lies before its places.
        payloads_free_ = control_.ring_payloads.load(std::memory_order_acquire);
        entries_free_ = control_.ring_entries.load(std::memory_order_acquire);
        if (full())
            return false;
    }
    if (entry.position != entries_.position)
        first_word(ring_ + entries_.position % kEntries)
            .store(word_of(RecordKind::kSkip, 0), std::memory_order_release);
    std::byte* place = ring_ + entry.position % kEntries;
    std::byte* content = apart == 0 ? place + head : ring_ + kEntries + body.position % kPayloads;
    constexpr size_t kWord = sizeof(uint64_t);
    std::memcpy(place + kWord, reinterpret_cast<const std::byte*>(&record) + kWord, head - kWord);
    if (!payload.empty())
        std::memcpy(content, payload.data(), payload.size());
    // Release: publishes the entry; pairs with the consumer's acquire in front().
    first_word(place).store(word_of(record.kind, payload.size()), std::memory_order_release);
    // The consumer has these lines, as it has cleared them; asked for now, they are here when it is their turn.
    __builtin_prefetch(ring_ + (entry.position + kAhead) % kEntries, 1);
    entries_.position = entry.position + bytes;
    payloads_.position = body.position + apart;
    return true;
}

const Record* RingConsumer::front() {
    for (;;) {
        std::byte* place = ring_ + entries_.position % kEntries;
        const uint64_t word = first_word(place).load(std::memory_order_acquire);
        if (word == 0)
            return nullptr;
        if (static_cast<RecordKind>(static_cast<uint32_t>(word)) != RecordKind::kSkip)
            return reinterpret_cast<const Record*>(place);
        clear(kEntries - entries_.position % kEntries);
    }
}

std::span<const std::byte> RingConsumer::payload() const {
    const std::byte* place = ring_ + entries_.position % kEntries;
    const auto* record = reinterpret_cast<const Record*>(place);
    if (stays_with_record(record->payload_bytes))
        return {place + head_bytes(record->kind), record->payload_bytes};
    RingPlace body = payloads_;
    body.fit(payload_bytes(record->payload_bytes), kPayloads);
    return {ring_ + kEntries + body.position % kPayloads, record->payload_bytes};
}

uint64_t RingConsumer::pop() {
    const auto* record = reinterpret_cast<const Record*>(ring_ + entries_.position % kEntries);
    const size_t bytes = entry_bytes(record->kind, record->payload_bytes);
    const size_t apart = payload_bytes(record->payload_bytes);
    clear(bytes);
    if (apart != 0) {
        payloads_.fit(apart, kPayloads);
        payloads_.position += apart;
    }
    give_back();
    return bytes + apart;
}

void RingConsumer::clear(uint64_t bytes) {
    for (uint64_t line = 0; line < bytes; line += kLine)
        first_word(ring_ + (entries_.position + line) % kEntries).store(0, std::memory_order_relaxed);
    entries_.position += bytes;
}

void RingConsumer::give_back() {
    // Release: the producer may overwrite what was read; pairs with its acquire in push().
    if (payloads_.position - payloads_given_ >= kPayloads / kGiveBack) {
        payloads_given_ = payloads_.position;
        control_.ring_payloads.store(payloads_given_, std::memory_order_release);
    }
    if (entries_.position - entries_given_ >= kEntries / kGiveBack) {
        entries_given_ = entries_.position;
        control_.ring_entries.store(entries_given_, std::memory_order_release);
    }
}

} // namespace gpurun::transfer
