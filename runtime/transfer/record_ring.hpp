// One direction of a pair's conversation: records in call order, one producer process, one consumer process.
//
// Lives in the job segment, in two parts. An entry of the first is a record's head (no more of it than its kind uses)
// and a payload of a few bytes. It takes one cache line or several, and never wraps: where the end is too short, a
// kSkip leads to the front. Every line starts with a word that has the *lap* in it, the number of times that the
// producer has been round. The first line's word, with kind and payload length, is stored last, and is what the
// consumer looks at: with the lap that it expects there, the entry is there. So a small message crosses in one cache
// line, which only the producer ever writes. Longer payloads lie in the second part, in the order of their entries,
// never wrapped either; both sides reckon where. Room is given back in large pieces. Each side is used under its
// process's engine lock.
#pragma once

#include "platform/job_segment.hpp"
#include "transfer/few_bytes.hpp"
#include "transfer/record.hpp"

#include <atomic>
#include <cstring>
#include <span>

namespace gpurun::transfer {

constexpr size_t kLargestInline = 16 * 1024;

constexpr size_t kRingLine = 64;
constexpr size_t kRingWord = sizeof(uint64_t); // at the front of each line

// A place in a part of the ring, counted in bytes ever passed.
struct RingPlace {
    uint64_t position = 0;

    // Skips the end of a part of `size` bytes if `bytes` do not fit before it.
    void fit(uint64_t bytes, uint64_t size) {
        if (size - position % size < bytes)
            position += size - position % size;
    }
};

// In lines that were never written it is 0, which it is not before all of them were.
constexpr uint16_t lap_at(uint64_t position) { return static_cast<uint16_t>(position / platform::kRingEntryBytes + 1); }
// The first 8 bytes of a Record, and of each line.
constexpr uint64_t line_word(RecordKind kind, uint64_t position, size_t payload) {
    return static_cast<uint64_t>(kind) | uint64_t{lap_at(position)} << 16 | uint64_t{payload} << 32;
}

class RingProducer {
  public:
    RingProducer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // False if there is no room now: nothing was published.
    bool push(const Record& record, std::span<const std::byte> payload = {});

    // The same for an inline message that takes one line. False too if there was no room when push() last looked.
    static constexpr size_t kLargestShort = kRingLine - head_bytes(RecordKind::kInline);
    bool push_short(const Envelope& envelope, const std::byte* payload) {
        const uint64_t position = entries_.position;
        if (position + kRingLine - entries_free_ > platform::kRingEntryBytes)
            return false;
        std::byte* const place = line(position);
        const uint64_t serial = 0;
        std::memcpy(place + offsetof(Record, serial), &serial, sizeof serial);
        std::memcpy(place + offsetof(Record, envelope), &envelope, sizeof envelope);
        copy_few(place + head_bytes(RecordKind::kInline), payload, envelope.bytes);
        publish(position, RecordKind::kInline, envelope.bytes);
        entries_.position = position + kRingLine;
        return true;
    }

  private:
    std::byte* line(uint64_t position) const { return ring_ + position % platform::kRingEntryBytes; }
    void publish(uint64_t position, RecordKind kind, size_t payload) const {
        // Release: publishes the entry; pairs with the consumer's acquire in front().
        std::atomic_ref(*reinterpret_cast<uint64_t*>(line(position)))
            .store(line_word(kind, position, payload), std::memory_order_release);
        own(line(position + kAhead));
    }
    // The consumer has read this line in the last lap, and its copy has to go before the line can be written. Asked for
    // now, that is done when it is the line's turn.
    static void own(const std::byte* place) {
#if defined(__x86_64__)
        asm volatile("prefetchw %0" : : "m"(*place)); // __builtin_prefetch() would ask for a shared copy
#else
        __builtin_prefetch(place, 1);
#endif
    }
    static constexpr uint64_t kAhead = 32 * kRingLine; // of a burst of small messages, some 10 ns each

    void skip(uint64_t end);
    void write(uint64_t position, const Record& record, size_t head, std::span<const std::byte> payload) const;

    platform::PairControl& control_;
    std::byte* ring_;
    RingPlace entries_;
    RingPlace payloads_;
    // The consumer's places as last read: saves the shared line most of the time.
    uint64_t entries_free_ = 0;
    uint64_t payloads_free_ = 0;
};

class RingConsumer {
  public:
    RingConsumer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // Whether there is nothing to take out: one load, for those that poll.
    bool empty() const { return !is_there(word().load(std::memory_order_relaxed)); }
    // The oldest record that was not popped, or null: as much of it as its kind uses (copy_record()). It and its
    // payload stay valid until pop().
    const Record* front();
    // REQUIRES front().
    std::span<const std::byte> payload() const;
    // REQUIRES front().
    void pop();
    // The same three for an inline message that takes one line. Null if the front is none.
    const Record* short_front() const {
        const uint64_t first = word().load(std::memory_order_acquire);
        constexpr uint64_t kKind = 0xffff;
        if (!is_there(first) || (first & kKind) != static_cast<uint64_t>(RecordKind::kInline) ||
            first >> 32 > RingProducer::kLargestShort)
            return nullptr;
        return reinterpret_cast<const Record*>(ring_ + entries_.position % platform::kRingEntryBytes);
    }
    static std::span<const std::byte> short_payload(const Record& record) {
        return {reinterpret_cast<const std::byte*>(&record) + head_bytes(RecordKind::kInline), record.payload_bytes};
    }
    void pop_short() {
        entries_.position += kRingLine;
        if (entries_.position - entries_given_ >= kEntriesGiven) [[unlikely]]
            give_back();
    }
    // Whether room was given back since this was last asked: a producer may wait for it.
    bool gave_back() { return std::exchange(gave_back_, false); }

  private:
    std::atomic_ref<uint64_t> word() const {
        return std::atomic_ref(*reinterpret_cast<uint64_t*>(ring_ + entries_.position % platform::kRingEntryBytes));
    }
    bool is_there(uint64_t word) const { return static_cast<uint16_t>(word >> 16) == lap_at(entries_.position); }
    static constexpr uint64_t kEntriesGiven = platform::kRingEntryBytes / 4; // at once
    void give_back();

    platform::PairControl& control_;
    std::byte* ring_;
    RingPlace entries_;
    RingPlace payloads_;
    uint64_t entries_given_ = 0; // what the producer knows of
    uint64_t payloads_given_ = 0;
    bool gave_back_ = false;
    const std::byte* front_ = nullptr; // the record, and what payload lies with it: in its line, or gathered
    alignas(Record) std::byte gathered_[sizeof(Record) + 2 * kRingLine];
};

// Copies what `from`'s kind uses.
inline void copy_record(Record& to, const Record& from) {
    std::memcpy(static_cast<void*>(&to), &from, head_bytes(from.kind));
}

} // namespace gpurun::transfer
