#include "transfer/channel/record_ring.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <bit>

namespace gpurun::transfer {

namespace {

constexpr size_t kEntries = platform::kRingEntryBytes;
constexpr size_t kPayloads = platform::kRingBytes - kEntries;
constexpr size_t kPart = kRingLine - kRingWord; // of an entry, in each line but the first, which its own word starts
constexpr size_t kLargestWithRecord = 88;       // then a bare record and its payload take two lines

constexpr bool stays_with_record(size_t payload) { return payload <= kLargestWithRecord; }
constexpr size_t content_bytes(size_t head, size_t payload) {
    return head + (stays_with_record(payload) ? payload : 0);
}
constexpr size_t entry_bytes(size_t head, size_t payload) {
    const size_t content = content_bytes(head, payload);
    return content <= kRingLine ? kRingLine : kRingLine + (content - kRingLine + kPart - 1) / kPart * kRingLine;
}
constexpr size_t payload_bytes(size_t payload) {
    return stays_with_record(payload) ? 0 : (payload + kRingLine - 1) / kRingLine * kRingLine;
}

constexpr size_t kLargestEntry = entry_bytes(sizeof(Record), kLargestWithRecord);
// The largest, and the unused end before it, always fit in what an idle consumer has given back.
static_assert(2 * (kLargestEntry + kRingLine) + kEntries / 4 <= kEntries);
static_assert(2 * kLargestInline + kPayloads / 4 <= kPayloads);
static_assert(kLargestInline <= UINT16_MAX && RingProducer::kLargestShort <= kMostFew);
static_assert(kEntries % kRingLine == 0 && kPayloads % kRingLine == 0 && std::endian::native == std::endian::little);
static_assert(offsetof(Record, protocol) == 1 && offsetof(Record, lap) == 2 && offsetof(Record, head_bytes) == 4 &&
              offsetof(Record, payload_bytes) == 6);

uint64_t& word_of(std::byte* line) { return *reinterpret_cast<uint64_t*>(line); }
uint64_t unused_word(uint64_t position, RecordKind kind = RecordKind::kNone) {
    return line_word(kind, 0, position, 0, 0);
}

} // namespace

bool RingProducer::push(const Record& record, std::span<const std::byte> payload) {
    GPURUN_ASSERT(payload.size() <= kLargestInline);
    const size_t bytes = entry_bytes(record.head_bytes, payload.size());
    const size_t apart = payload_bytes(payload.size());
    RingPosition entry = entries_;
    RingPosition body = payloads_;
    entry.fit(bytes, kEntries);
    if (apart != 0)
        body.fit(apart, kPayloads);
    const auto full = [&] {
        return entry.value + bytes - entries_free_ > kEntries || body.value + apart - payloads_free_ > kPayloads;
    };
    if (full())
        look_for_room();
    if (full()) {
        want_room();
        look_for_room();
        if (full())
            return false;
    }
    if (entry.value != entries_.value)
        skip(entry.value);
    if (apart != 0)
        std::memcpy(ring_ + kEntries + body.value % kPayloads, payload.data(), payload.size());
    write(entry.value, record, apart == 0 ? payload : std::span<const std::byte>());
    publish(entry.value, line_word(record.kind, record.protocol, entry.value, record.head_bytes, payload.size()));
    entries_.value = entry.value + bytes;
    payloads_.value = body.value + apart;
    return true;
}

// Acquire: the consumer has finished with what lies before its positions.
void RingProducer::look_for_room() {
    payloads_free_ = control_.ring_payloads.load(std::memory_order_acquire);
    entries_free_ = control_.ring_entries.load(std::memory_order_acquire);
}

// Either the producer sees the room when it looks once more, or the consumer sees that it is wanted. For that each
// side's store has to come before its load: the fence pairs with that of give_back().
void RingProducer::want_room() {
    control_.ring_room_wanted.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Every line has its lap, so that none is taken for one of a later lap.
void RingProducer::skip(uint64_t end) {
    for (uint64_t position = entries_.value + kRingLine; position < end; position += kRingLine)
        word_of(line(position)) = unused_word(position);
    publish(entries_.value, unused_word(entries_.value, RecordKind::kSkip));
}

// All but the first word.
void RingProducer::write(uint64_t position, const Record& record, std::span<const std::byte> payload) const {
    std::byte* to = line(position) + kRingWord;
    size_t room = kPart;
    const auto put = [&](const std::byte* from, size_t bytes) {
        while (bytes != 0) {
            if (room == 0) {
                position += kRingLine;
                word_of(line(position)) = unused_word(position);
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
    put(reinterpret_cast<const std::byte*>(&record) + kRingWord, record.head_bytes - kRingWord);
    put(payload.data(), payload.size());
}

// front(), where the entry is there and takes more than one line.
const Record* RingConsumer::gather() {
    if (front_record().kind == RecordKind::kSkip) {
        entries_.value += kEntries - entries_.value % kEntries;
        return front();
    }
    const Record& record = front_record();
    const size_t content = content_bytes(record.head_bytes, record.payload_bytes);
    if (content <= kRingLine)
        return &record;
    std::memcpy(gathered_, front_, kRingLine);
    for (size_t have = kRingLine, line = kRingLine; have < content; have += kPart, line += kRingLine)
        std::memcpy(gathered_ + have, front_ + line + kRingWord, std::min(kPart, content - have));
    static_assert(sizeof gathered_ >= sizeof(Record) + kLargestWithRecord);
    front_ = gathered_;
    return reinterpret_cast<const Record*>(front_);
}

std::span<const std::byte> RingConsumer::long_payload() const {
    const size_t bytes = front_record().payload_bytes;
    if (stays_with_record(bytes))
        return {front_ + front_record().head_bytes, bytes};
    RingPosition body = payloads_;
    body.fit(payload_bytes(bytes), kPayloads);
    return {ring_ + kEntries + body.value % kPayloads, bytes};
}

void RingConsumer::pop_long() {
    const Record& record = front_record();
    entries_.value += entry_bytes(record.head_bytes, record.payload_bytes);
    if (const size_t apart = payload_bytes(record.payload_bytes); apart != 0) {
        payloads_.fit(apart, kPayloads);
        payloads_.value += apart;
    }
}

void RingConsumer::give_back() {
    // Release: the producer may overwrite what was read; pairs with its acquire in look_for_room().
    if (payloads_.value - payloads_given_ >= kPayloadsGiven) {
        payloads_given_ = payloads_.value;
        control_.ring_payloads.store(payloads_given_, std::memory_order_release);
    }
    if (entries_.value - entries_given_ >= kEntriesGiven) {
        entries_given_ = entries_.value;
        control_.ring_entries.store(entries_given_, std::memory_order_release);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst); // pairs with that of want_room()
    if (control_.ring_room_wanted.load(std::memory_order_relaxed) != 0) {
        control_.ring_room_wanted.store(0, std::memory_order_relaxed);
        gave_wanted_room_ = true;
    }
}

} // namespace gpurun::transfer
