// One direction of a pair's conversation: records in call order, one producer process, one consumer process.
//
// Lives in the job segment, in two parts. An entry of the first is a record's head (no more of it than its kind uses)
// and a payload of a few bytes; it starts on a cache line and never wraps: where the end is too short, a kSkip leads to
// the front. The first word of an entry, kind and payload length, is stored last, and is what the consumer looks at, so
// that a small message crosses in one cache line. Taking an entry out sets every word where a later entry could start
// back to 0. Longer payloads lie in the second part, in the order of their entries, never wrapped either; both sides
// reckon where. Room is given back in large pieces. Each side is used under its process's engine lock.
#pragma once

#include "platform/job_segment.hpp"
#include "transfer/record.hpp"

#include <atomic>
#include <cstring>
#include <span>

namespace gpurun::transfer {

constexpr size_t kLargestInline = 16 * 1024;

// A place in a part of the ring, counted in bytes ever passed.
struct RingPlace {
    uint64_t position = 0;

    // Skips the end of a part of `size` bytes if `bytes` do not fit before it.
    void fit(uint64_t bytes, uint64_t size) {
        if (size - position % size < bytes)
            position += size - position % size;
    }
};

class RingProducer {
  public:
    RingProducer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // False if there is no room now: nothing was published.
    bool push(const Record& record, std::span<const std::byte> payload = {});

  private:
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
    bool empty() const {
        const std::byte* next = ring_ + entries_.position % platform::kRingEntryBytes;
        return std::atomic_ref(*reinterpret_cast<uint64_t*>(const_cast<std::byte*>(next)))
                   .load(std::memory_order_relaxed) == 0;
    }
    // The oldest record that was not popped, or null: as much of it as its kind uses (copy_record()). It and its
    // payload stay valid until pop().
    const Record* front();
    std::span<const std::byte> payload() const;
    uint64_t pop(); // the bytes that it took in the ring

  private:
    void clear(uint64_t bytes);
    void give_back();

    platform::PairControl& control_;
    std::byte* ring_;
    RingPlace entries_;
    RingPlace payloads_;
    uint64_t entries_given_ = 0; // what the producer knows of
    uint64_t payloads_given_ = 0;
};

// Copies what `from`'s kind uses.
inline void copy_record(Record& to, const Record& from) {
    std::memcpy(static_cast<void*>(&to), &from, head_bytes(from.kind));
}

} // namespace gpurun::transfer
