// What a fenced copy needs.
#pragma once

#include "subject.hpp"

#include "device/capability/fenced_copies.hpp"

#include <cstring>

namespace gpurun::conformance {

// The slot of one copy after another: its two edges, its ticket and its gate, which read 0 at first.
class Slot {
  public:
    Slot() { write(memory_.get(), Bytes(kBytes)); }
    // REQUIRES: the copy before is done.
    void begin() { value_ += kStep; }
    uint64_t value() const { return value_; }
    size_t before() const { return before_; }
    size_t after() const { return after_; }
    bool is_done() const { return counter(after_).load(std::memory_order_acquire) >= value_; }

    // What the next ones are asked to fill in, from here on.
    void time(device::Times* times) { times_ = times; }
    void copy(void* destination, const void* source, size_t bytes, bool waits, device::Stream stream) const {
        device::FencedCopy copy;
        copy.destination = destination;
        copy.source = source;
        copy.bytes = bytes;
        copy.before = waits ? &counter(before_) : nullptr;
        copy.after = &counter(after_);
        copy.value = value_;
        copy.ticket = reinterpret_cast<uint32_t*>(memory_.get());
        copy.gate = reinterpret_cast<uint64_t*>(memory_.get() + 8);
        copy.times = times_;
        REQUIRE_OK(subject().fenced_copies()->copy_fenced(copy, stream));
    }
    void release() const { store(before_, value_); }
    // `gate`: the value of the latest copy that waited.
    void check_words(uint64_t gate) const {
        const Bytes words = read(memory_.get(), kBytes);
        CHECK(Bytes(words.begin(), words.begin() + 4) == Bytes(4));
        CHECK(std::memcmp(&words[8], &gate, sizeof gate) == 0);
    }

  private:
    static constexpr size_t kBytes = 16;
    const Memory memory_{kBytes};
    const size_t before_ = new_counter();
    const size_t after_ = new_counter();
    uint64_t value_ = 0;
    device::Times* times_ = nullptr;
};

} // namespace gpurun::conformance
