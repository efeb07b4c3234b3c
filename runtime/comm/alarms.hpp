// How the device wakes a sleeping thread: an internal stream waits for the completion point, then runs a host function
// that notifies the rank. Used under the engine lock, except Alarm::ring(), which the stream's host thread calls.
#pragma once

#include "comm/core.hpp"

#include <deque>
#include <functional>

namespace gpurun::comm {

// How long a thread sleeps before it looks again by itself, although alarms are set: CUDA runs the host functions of a
// process one at a time, so one of the program's that blocks holds alarms up.
class Patience {
  public:
    // Twice as long as the last time, unless the engine has moved something since.
    int64_t next_ns(uint64_t changes) {
        if (std::exchange(changes_, changes) != changes)
            next_ns_ = kLeastNs;
        return std::exchange(next_ns_, std::min(2 * next_ns_, kMostNs));
    }

  private:
    static constexpr int64_t kLeastNs = 1'000'000;
    static constexpr int64_t kMostNs = 20'000'000;

    int64_t next_ns_ = kLeastNs;
    uint64_t changes_ = 0;
};

class Alarms {
  public:
    explicit Alarms(Core& core) : core_(core) {}

    // Before a thread sleeps: begin(), then set_for() each operation, set() for other completion points that it waits
    // for, or look_again() for what no alarm can tell.
    void begin() GPURUN_REQUIRES(engine_lock) {
        any_set_ = any_missing_ = false;
        look_by_ns_ = kNever;
    }
    base::Result<void> set(const transfer::CompletionPoint& point) GPURUN_REQUIRES(engine_lock);
    void look_again() GPURUN_REQUIRES(engine_lock) { any_missing_ = true; }
    void look_again_by(int64_t time_ns) GPURUN_REQUIRES(engine_lock) { look_by_ns_ = std::min(look_by_ns_, time_ns); }
    base::Result<void> set_for(const transfer::Operation& operation) GPURUN_REQUIRES(engine_lock);
    // The same for every operation that needs a thread of this rank; with `all`, for all others that are under way,
    // too. And what `others` sets, called with the same.
    base::Result<void> set_for_moving(bool all) GPURUN_REQUIRES(engine_lock);
    void also_set(std::function<base::Result<void>(bool all)> others) { others_ = std::move(others); }
    // How long the thread may sleep.
    int64_t longest_sleep_ns(Patience& patience) const GPURUN_REQUIRES(engine_lock);

    // Whether an alarm's stream waits for an edge of a fence.
    bool any_awaits_edge() const GPURUN_REQUIRES(engine_lock);
    // Waits until all have rung.
    void close() GPURUN_REQUIRES(engine_lock);

  private:
    // May be set again once it has rung.
    struct Alarm {
        Alarm(Core& core_, device::Stream stream_) : core(&core_), stream(stream_) {}

        Core* core;
        device::Stream stream;
        transfer::CompletionPoint point{};
        std::atomic<bool> rung{true}; // by the stream's host thread, before it notifies (release)

        static void ring(void* alarm);
    };
    static constexpr int64_t kLookAgainNs = 200'000; // where not all that is waited for has an alarm

    static constexpr int64_t kNever = INT64_MAX;

    Core& core_;
    std::deque<Alarm> alarms_; // as many as are awaited at the same time, up to a limit (StreamLimits)
    bool any_set_ = false;
    bool any_missing_ = false;
    int64_t look_by_ns_ = kNever;
    std::function<base::Result<void>(bool all)> others_ = [](bool) { return base::Result<void>(); };
};

} // namespace gpurun::comm
