// Events, which are used again: to mark a point in a stream, as long as somebody needs it, and to order two streams.
// Used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <utility>
#include <vector>

namespace gpurun::transfer {

class EventPool {
  public:
    explicit EventPool(device::Device& device) : device_(device) {}
    ~EventPool();

    // An event that is recorded in `stream` now; the taker's until give_back().
    base::Result<device::Event> record(device::Stream stream);
    void give_back(device::Event event) { idle_.push_back(event); }
    size_t lent() const { return all_.size() - idle_.size(); } // not given back yet
    // Enqueue: what follows in `second` starts after what is in `first` now.
    base::Result<void> order(device::Stream first, device::Stream second);

  private:
    static constexpr size_t kOrderEvents = 16; // used in turn: a wait latches its record when it is made

    device::Device& device_;
    std::vector<device::Event> all_;
    std::vector<device::Event> idle_; // has room for all: to give one back allocates nothing
    std::vector<device::Event> order_;
    size_t next_order_ = 0;
};

// An event of the pool's, given back when this goes.
class EventLease {
  public:
    EventLease() = default;
    EventLease(EventPool& pool, device::Event event) : pool_(&pool), event_(event) {}
    EventLease(EventLease&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), event_(other.event_) {}
    EventLease& operator=(EventLease&& other) noexcept {
        reset();
        pool_ = std::exchange(other.pool_, nullptr);
        event_ = other.event_;
        return *this;
    }
    ~EventLease() { reset(); }

    explicit operator bool() const { return pool_ != nullptr; }
    device::Event get() const { return event_; }
    void reset() {
        if (EventPool* const pool = std::exchange(pool_, nullptr))
            pool->give_back(event_);
    }

  private:
    EventPool* pool_ = nullptr;
    device::Event event_{};
};

} // namespace gpurun::transfer
