// A batch: requests that are started in a row. Small messages among them share kernels.
//
// From the second start on, a small message is not enqueued at once. The batch is flushed by the next call of another
// kind, or by the background thread after kLongestDelayNs. Used under the engine lock.
#pragma once

#include "comm/core.hpp"

namespace gpurun::comm {

class Batch {
  public:
    explicit Batch(Core& core) : core_(core) {}

    // Whether there is a background thread, which flushes batches in time.
    void allow(bool allowed) GPURUN_REQUIRES(engine_lock) { allowed_ = allowed; }
    bool may_defer() const GPURUN_REQUIRES(engine_lock) { return starts_ != 0 && allowed_; }
    void count_start() GPURUN_REQUIRES(engine_lock) { ++starts_; }
    // Starts a send of a request now, or defers it.
    void start_send(transfer::Send& send) GPURUN_REQUIRES(engine_lock);
    // After a start: launches what was collected, or defers that, too. True if something is deferred.
    bool after_start(bool defers) GPURUN_REQUIRES(engine_lock);
    bool is_deferring() const GPURUN_REQUIRES(engine_lock) { return deferred_until_ns_ != 0; }
    int64_t deferred_until_ns() const GPURUN_REQUIRES(engine_lock) { return deferred_until_ns_; }
    // At the beginning of every call that waits or completes: flushes.
    void end() GPURUN_REQUIRES(engine_lock);
    // The same where nothing is deferred. REQUIRES !is_deferring().
    void forget_starts() GPURUN_REQUIRES(engine_lock) { starts_ = 0; }
    void flush() GPURUN_REQUIRES(engine_lock);
    // Launches the kernels of the mails that were collected.
    void launch() GPURUN_REQUIRES(engine_lock);
    // `begin` is called when the first message of a batch is deferred: it wakes the background thread.
    void on_begin(std::function<void()> begin) { begin_ = std::move(begin); }

  private:
    static constexpr int64_t kLongestDelayNs = 30'000;

    bool shares_kernel(const transfer::Send& send) GPURUN_REQUIRES(engine_lock);
    void defer() GPURUN_REQUIRES(engine_lock);

    Core& core_;
    bool allowed_ = false;
    uint32_t starts_ = 0;
    int64_t deferred_until_ns_ = 0; // 0: nothing is deferred
    std::function<void()> begin_ = [] {};
};

} // namespace gpurun::comm
