// One direction of a pair's conversation: records in call order, one producer process, one consumer process.
//
// Lives in the job segment, in two parts. An entry of the first part is a record (as much of it as is used) and a short
// payload. It takes one or several cache lines, and never wraps: where the end is too short, a kSkip entry leads to the
// front. Every line starts with a word that holds the *lap*, the number of times that the producer has been round. An
// entry's first word, which is the first 8 bytes of the record, is stored last. The consumer looks at that word alone:
// if it holds the lap that the consumer is in, the entry is there. So a small message crosses in one cache line, which
// only the producer ever writes. Longer payloads are in the second part, in the order of their entries, and do not wrap
// either; both sides compute where. The consumer gives room back in large pieces. A producer that finds no room says
// so, and only then it is to be notified of some. Each side is used under the engine lock of its process.
#pragma once

#include "base/limits.hpp"
#include "platform/job_segment.hpp"
#include "transfer/channel/few_bytes.hpp"
#include "transfer/channel/record.hpp"

#include <atomic>
#include <span>
#include <utility>

namespace gpurun::transfer {

constexpr size_t kLargestInline = base::kMostEagerBytes;

constexpr size_t kRingLine = 64;
constexpr size_t kRingWord = sizeof(uint64_t); // at the front of each line

// A position in a part of the ring, counted in bytes ever passed.
struct RingPosition {
    uint64_t value = 0;

    // Skips the end of a part of `size` bytes if `bytes` do not fit before it.
    void fit(uint64_t bytes, uint64_t size) {
        if (size - value % size < bytes)
            value += size - value % size;
    }
};

// From 1 on: a line that was never written has 0.
constexpr uint16_t lap_at(uint64_t position) { return static_cast<uint16_t>(position / platform::kRingEntryBytes + 1); }
// The first 8 bytes of a Record, and of each line.
constexpr uint64_t line_word(RecordKind kind, ProtocolId protocol, uint64_t position, size_t head, size_t payload) {
    return static_cast<uint64_t>(kind) | uint64_t{protocol} << 8 | uint64_t{lap_at(position)} << 16 |
           uint64_t{head} << 32 | uint64_t{payload} << 48;
}

class RingProducer {
  public:
    RingProducer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // False if there is no room now: nothing was published. The consumer will see that room is wanted.
    bool push(const Record& record, std::span<const std::byte> payload = {});

    // The same for a message of a few bytes without a body, but perhaps with a signature, that takes one line. Also
    // false if push() found no room when it last looked.
    static constexpr size_t kLargestShort = kRingLine - Record::kBareBytes;
    bool push_short(ProtocolId protocol, const Envelope& envelope, const std::byte* payload, uint64_t signature) {
        const uint64_t position = entries_.value;
        if (position + kRingLine - entries_free_ > platform::kRingEntryBytes)
            return false;
        std::byte* const entry = line(position);
        const uint64_t serial = 0;
        std::memcpy(entry + offsetof(Record, serial), &serial, sizeof serial);
        std::memcpy(entry + offsetof(Record, envelope), &envelope, sizeof envelope);
        size_t head = Record::kBareBytes;
        if (signature != 0) {
            std::memcpy(entry + head, &signature, sizeof signature);
            head += sizeof signature;
        }
        copy_few(entry + head, payload, envelope.bytes);
        publish(position, line_word(RecordKind::kMessage, protocol, position, head, envelope.bytes));
        entries_.value = position + kRingLine;
        return true;
    }

  private:
    std::byte* line(uint64_t position) const { return ring_ + position % platform::kRingEntryBytes; }
    void publish(uint64_t position, uint64_t word) const {
        // Release: publishes the entry; pairs with the consumer's acquire in front().
        std::atomic_ref(*reinterpret_cast<uint64_t*>(line(position))).store(word, std::memory_order_release);
        own(line(position + kAhead));
    }
    // The consumer's cache has this line from the last lap, and has to give it up before it can be written. Asked for
    // now, that has happened when the line is needed.
    static void own(const std::byte* line) {
#if defined(__x86_64__)
        asm volatile("prefetchw %0" : : "m"(*line)); // __builtin_prefetch() would ask for a shared copy
#else
        __builtin_prefetch(line, 1);
#endif
    }
    static constexpr uint64_t kAhead = 32 * kRingLine; // small messages of a burst take some 10 ns each

    void look_for_room();
    void want_room();
    void skip(uint64_t end);
    void write(uint64_t position, const Record& record, std::span<const std::byte> payload) const;

    platform::PairControl& control_;
    std::byte* ring_;
    RingPosition entries_;
    RingPosition payloads_;
    // The consumer's positions as last read: saves the shared line most of the time.
    uint64_t entries_free_ = 0;
    uint64_t payloads_free_ = 0;
};

class RingConsumer {
  public:
    RingConsumer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // Whether there is nothing to take out: one load.
    bool empty() const { return !is_there(word().load(std::memory_order_relaxed)); }
    // The oldest record that was not popped, or null: as much of it as is used (copy_record()). It and its payload stay
    // valid until pop().
    const Record* front() {
        const uint64_t first = word().load(std::memory_order_acquire);
        if (!is_there(first))
            return nullptr;
        front_ = ring_ + entries_.value % platform::kRingEntryBytes;
        return is_short(first) ? reinterpret_cast<const Record*>(front_) : gather();
    }
    // REQUIRES front().
    std::span<const std::byte> payload() const {
        const Record& record = front_record();
        if (record.payload_bytes <= RingProducer::kLargestShort)
            return {front_ + record.head_bytes, record.payload_bytes};
        return long_payload();
    }
    // REQUIRES front().
    void pop() {
        if (is_short(word().load(std::memory_order_relaxed)))
            entries_.value += kRingLine;
        else
            pop_long();
        if (entries_.value - entries_given_ >= kEntriesGiven || payloads_.value - payloads_given_ >= kPayloadsGiven)
            [[unlikely]]
            give_back();
    }
    // Whether the producer had asked for the room that was given back since the last call: it has to be notified.
    bool gave_wanted_room() { return std::exchange(gave_wanted_room_, false); }

  private:
    // A message of one line, as push_short() makes them.
    static bool is_short(uint64_t word) {
        constexpr uint64_t kHead = uint64_t{0xffff} << 32 | 0xff;
        return (word & kHead) == (uint64_t{Record::kBareBytes} << 32 | static_cast<uint64_t>(RecordKind::kMessage)) &&
               word >> 48 <= RingProducer::kLargestShort;
    }
    std::atomic_ref<uint64_t> word() const {
        return std::atomic_ref(*reinterpret_cast<uint64_t*>(ring_ + entries_.value % platform::kRingEntryBytes));
    }
    bool is_there(uint64_t word) const { return static_cast<uint16_t>(word >> 16) == lap_at(entries_.value); }
    const Record& front_record() const { return *reinterpret_cast<const Record*>(front_); }
    const Record* gather();
    std::span<const std::byte> long_payload() const;
    void pop_long();
    void give_back();

    static constexpr size_t kParts = 4; // of each part of the ring, of which one is given back at once
    static constexpr uint64_t kEntriesGiven = platform::kRingEntryBytes / kParts;
    static constexpr uint64_t kPayloadsGiven = (platform::kRingBytes - platform::kRingEntryBytes) / kParts;

    platform::PairControl& control_;
    std::byte* ring_;
    RingPosition entries_;
    RingPosition payloads_;
    uint64_t entries_given_ = 0; // what the producer knows of
    uint64_t payloads_given_ = 0;
    bool gave_wanted_room_ = false;
    const std::byte* front_ = nullptr; // the record, and what payload lies with it: in its line, or gathered
    alignas(Record) std::byte gathered_[sizeof(Record) + 2 * kRingLine];
};

} // namespace gpurun::transfer
