// One direction of a pair's conversation: records in call order, one producer process, one consumer process.
//
// Lives in the job segment: bytes [head, tail) of a ring are published. A record never wraps: it starts at the
// ring's front when the end is too short. Each side is used under its process's engine lock.
#pragma once

#include "platform/job_segment.hpp"
#include "transfer/record.hpp"

#include <cstring>
#include <span>

namespace gpurun::transfer {

constexpr size_t kLargestInline = 16 * 1024;

class RingProducer {
  public:
    RingProducer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // False if there is no room now: nothing was published.
    bool push(const Record& record, std::span<const std::byte> payload = {});

  private:
    platform::PairControl& control_;
    std::byte* ring_;
    uint64_t head_seen_ = 0; // the consumer's head as last read: saves the shared line most of the time
};

class RingConsumer {
  public:
    RingConsumer(platform::PairControl& control, std::byte* ring) : control_(control), ring_(ring) {}

    // The oldest record that was not popped, or null. It and its payload stay valid until pop().
    const Record* front();
    std::span<const std::byte> payload() const;
    uint64_t pop(); // the bytes that it took in the ring

  private:
    platform::PairControl& control_;
    std::byte* ring_;
    uint64_t head_ = 0;
    uint64_t tail_seen_ = 0;
};

} // namespace gpurun::transfer
