#include "transfer/record_ring.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <bit>

namespace gpurun::transfer {

namespace {

constexpr size_t kEntries = platform::kRingEntryBytes;
constexpr size_t kPayloads = platform::kRingBytes - kEntries;
constexpr size_t kPart = kRingLine - kRingWord; // of an entry, in each line but the first, which its own word starts
constexpr size_t kLargestWithRecord = 88;       // then the head of an inline message and its payload take two lines
constexpr size_t kGiveBack = 4;                 // parts of each, of which one is given back at once

constexpr bool stays_with_record(size_t payload) { return payload <= kLargestWithRecord; }
constexpr size_t content_bytes(RecordKind kind, size_t payload) {
    return head_bytes(kind) + (stays_with_record(payload) ? payload : 0);
}
constexpr size_t entry_bytes(RecordKind kind, size_t payload) {
    const size_t content = content_bytes(kind, payload);
    return content <= kRingLine ? kRingLine : kRingLine + (content - kRingLine + kPart - 1) / kPart * kRingLine;
}
constexpr size_t payload_bytes(size_t payload) {
    return stays_with_record(payload) ? 0 : (payload + kRingLine - 1) / kRingLine * kRingLine;
}

constexpr size_t kLargestEntry = entry_bytes(RecordKind::kRequest, kLargestWithRecord);
// The largest, and the unused end before it, always fit in what an idle consumer has given back.
static_assert(2 * (kLargestEntry + kRingLine) + kEntries / kGiveBack <= kEntries);
static_assert(2 * kLargestInline + kPayloads / kGiveBack <= kPayloads);
static_assert(kEntries % kRingLine == 0 && kPayloads % kRingLine == 0 && std::endian::native == std::endian::little);
static_assert(offsetof(Record, kind) == 0 && offsetof(Record, lap) == 2 && offsetof(Record, payload_bytes) == 4);

uint64_t& word_of(std::byte* place) { return *reinterpret_cast<uint64_t*>(place); }

} // namespace

static_assert(RingProducer::kLargestShort <= kMostFew);

bool RingProducer::push(const Record& record, std::span<const std::byte> payload) {
    CHECK(payload.size() <= kLargestInline);
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
        skip(entry.position);
    if (apart != 0)
        std::memcpy(ring_ + kEntries + body.position % kPayloads, payload.data(), payload.size());
    write(entry.position, record, head_bytes(record.kind), apart == 0 ? payload : std::span<const std::byte>());
    publish(entry.position, record.kind, payload.size());
    entries_.position = entry.position + bytes;
    payloads_.position = body.position + apart;
    return true;
}

// Every line has its lap, so that none is taken for one of a later lap.
void RingProducer::skip(uint64_t end) {
    for (uint64_t position = entries_.position + kRingLine; position < end; position += kRingLine)
        word_of(line(position)) = line_word(RecordKind::kNone, position, 0);
    publish(entries_.position, RecordKind::kSkip, 0);
}

// All but the first word.
void RingProducer::write(uint64_t position, const Record& record, size_t head,
                         std::span<const std::byte> payload) const {
    std::byte* to = line(position) + kRingWord;
    size_t room = kPart;
    const auto put = [&](const std::byte* from, size_t bytes) {
        while (bytes != 0) {
            if (room == 0) {
                position += kRingLine;
                word_of(line(position)) = line_word(RecordKind::kNone, position, 0);
                own(line(position + kAhead));
                to = line(position) + kRingWord;
                room = kPart;
            }
            const size_t part = std::min(bytes, room);
            std::memcpy(to, from, part);
            to += part;
            from += part;
            room -= part;
            bytes -= part;
        }
    };
    put(reinterpret_cast<const std::byte*>(&record) + kRingWord, head - kRingWord);
    put(payload.data(), payload.size());
}

const Record* RingConsumer::front() {
    uint64_t first = word().load(std::memory_order_acquire);
    if (!is_there(first))
        return nullptr;
    if (static_cast<RecordKind>(static_cast<uint16_t>(first)) == RecordKind::kSkip) {
        entries_.position += kEntries - entries_.position % kEntries;
        first = word().load(std::memory_order_acquire);
        if (!is_there(first))
            return nullptr;
    }
    front_ = ring_ + entries_.position % kEntries;
    const auto* record = reinterpret_cast<const Record*>(front_);
    const size_t content = content_bytes(record->kind, record->payload_bytes);
    if (content <= kRingLine)
        return record;
    std::memcpy(gathered_, front_, kRingLine);
    for (size_t have = kRingLine, line = kRingLine; have < content; have += kPart, line += kRingLine)
        std::memcpy(gathered_ + have, front_ + line + kRingWord, std::min(kPart, content - have));
    static_assert(sizeof gathered_ >= sizeof(Record) + kLargestWithRecord);
    front_ = gathered_;
    return reinterpret_cast<const Record*>(front_);
}

std::span<const std::byte> RingConsumer::payload() const {
    const auto* record = reinterpret_cast<const Record*>(front_);
    if (stays_with_record(record->payload_bytes))
        return {front_ + head_bytes(record->kind), record->payload_bytes};
    RingPlace body = payloads_;
    body.fit(payload_bytes(record->payload_bytes), kPayloads);
    return {ring_ + kEntries + body.position % kPayloads, record->payload_bytes};
}

void RingConsumer::pop() {
    const auto* record = reinterpret_cast<const Record*>(front_);
    const size_t bytes = entry_bytes(record->kind, record->payload_bytes);
    const size_t apart = payload_bytes(record->payload_bytes);
    entries_.position += bytes;
    if (apart != 0) {
        payloads_.fit(apart, kPayloads);
        payloads_.position += apart;
    }
    give_back();
}

void RingConsumer::give_back() {
    // Release: the producer may overwrite what was read; pairs with its acquire in push().
    if (payloads_.position - payloads_given_ >= kPayloads / kGiveBack) {
        payloads_given_ = payloads_.position;
        control_.ring_payloads.store(payloads_given_, std::memory_order_release);
        gave_back_ = true;
    }
    if (entries_.position - entries_given_ >= kEntriesGiven) {
        entries_given_ = entries_.position;
        control_.ring_entries.store(entries_given_, std::memory_order_release);
        gave_back_ = true;
    }
}

} // namespace gpurun::transfer
