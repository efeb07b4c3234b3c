// A batch: requests that are started in a row. Small messages among them share kernels.
//
// From the second start on, a small message is not enqueued at once; of a startall, from the first one on. The batch is
// flushed by the next call of another kind, or by the background thread after kLongestDelayNs. Of a series that is
// held, nothing is enqueued at once, and if it is completed directly, what is left of it moves by few kernels in the
// program's stream, as calls that are made together. Of a long one parts begin before that: sends that fill a kernel
// go into that stream, and what has come, and waits for nothing, moves in an internal stream. It is flushed
// kLongestDelayNs after the last start. Used under the engine lock.
#pragma once

#include "comm/core.hpp"
#include "comm/series.hpp"

#include <atomic>
#include <optional>

namespace gpurun::comm {

class Batch {
  public:
    explicit Batch(Core& core);

    // Whether there is a background thread, which flushes batches in time.
    void allow(bool allowed) GPURUN_REQUIRES(engine_lock) { allowed_ = allowed; }
    bool may_defer() const GPURUN_REQUIRES(engine_lock) {
        return (starts_ != 0 || core_.resources().exchanges.collects()) && allowed_;
    }
    void count_start() GPURUN_REQUIRES(engine_lock) { ++starts_; }
    // A receive in the host's order that waits for its message. It is the first start, for which sends are deferred,
    // only where the program has lately completed such requests directly: else they would wait for the background
    // thread.
    void count_posted() GPURUN_REQUIRES(engine_lock);
    // Before a request is started: where such requests were flushed in the middle, they go on.
    void go_on() GPURUN_REQUIRES(engine_lock);
    // At the end of the call that has started one.
    void note_start() GPURUN_REQUIRES(engine_lock);
    // ---- series
    // Before a request is started: returns the number of the series that it belongs to, 0 if it belongs to none.
    // `of`: whose collective it is; null: a message.
    uint64_t add_to_series(const transfer::Operand& operand, int64_t entered_ns, const Communicator* of = nullptr)
        GPURUN_REQUIRES(engine_lock);
    // Before the collective of a request is added, or started without that (no time): ends whatever it does not go on
    // with, since its messages come behind what was started before.
    void make_way(const transfer::Operand& operand, std::optional<int64_t> entered_ns, const Communicator* of)
        GPURUN_REQUIRES(engine_lock);
    // For a request of nobody, which belongs to none, and breaks none.
    void pass_in_series(int64_t entered_ns) GPURUN_REQUIRES(engine_lock) { series_.pass(entered_ns); }
    // At the end of the call. Without the lock, giving up which may take a while.
    void leave_series() const;
    const Series& series() const GPURUN_REQUIRES(engine_lock) { return series_; }
    // The time, if a series is open, so that a call that begins may belong to it; else 0. Without the lock.
    int64_t entry_time() const;
    // In place of end(), of a series that is completed directly. What was held is posted, and not launched.
    void end_directly() GPURUN_REQUIRES(engine_lock);
    // What is left for a moment, and is not of the series that was completed.
    void enqueue_left() GPURUN_REQUIRES(engine_lock);

    // Starts a send of a request now, or defers it.
    void start_send(transfer::Send& send) GPURUN_REQUIRES(engine_lock);
    // So many sends of a series are held that they fill a kernel.
    bool fills_kernel() const GPURUN_REQUIRES(engine_lock) { return held_sends_ >= device::kMostExchanged; }
    // Posts them, and begins what has come for the series and waits for nothing.
    void begin_part() GPURUN_REQUIRES(engine_lock);
    // After a start: launches what was collected, or defers that, too. True if something is deferred.
    bool after_start(bool defers) GPURUN_REQUIRES(engine_lock);
    bool is_deferring() const GPURUN_REQUIRES(engine_lock) { return deferred_until_ns() != 0; }
    // ---- for the background thread, which looks without the lock, too
    int64_t deferred_until_ns() const { return deferred_until_ns_.load(std::memory_order_relaxed); }
    bool is_overdue(int64_t now_ns) const { return deferred_until_ns() != 0 && deferred_until_ns() <= now_ns; }
    // Something was deferred lately, so something will be soon.
    bool defers_often(int64_t now_ns) const {
        return now_ns < last_deferred_ns_.load(std::memory_order_relaxed) + kOftenNs;
    }
    static constexpr int64_t kLongestDelayNs = 30'000;
    static constexpr int64_t kOftenNs = 1'000'000;
    static constexpr int64_t kDirectNs = 3'000; // from the last start to the call that completes
    // At the beginning of every call that waits or completes: flushes. Or posts, and leaves to the caller what is to be
    // launched.
    enum class Launch : uint8_t { kNow, kLater };
    void end(Launch launch = Launch::kNow) GPURUN_REQUIRES(engine_lock);
    // The same where nothing is deferred. REQUIRES !is_deferring().
    void forget_starts() GPURUN_REQUIRES(engine_lock) {
        starts_ = 0;
        if (series_.is_begun()) [[unlikely]]
            end_series(false);
    }
    void flush(Launch when = Launch::kNow) GPURUN_REQUIRES(engine_lock);
    // The collectives that are held, of whatever thread, begin where they were called.
    void begin_held() GPURUN_REQUIRES(engine_lock) { begin_held_(); }
    // Launches the kernels of the messages that were collected.
    void launch() GPURUN_REQUIRES(engine_lock);
    // After progress: where more requests in the host's order are expected, what was collected waits for their
    // messages.
    void launch_or_defer() GPURUN_REQUIRES(engine_lock);
    // `begin` is called when the first message of a batch is deferred: it wakes the background thread.
    void on_begin(std::function<void()> begin) { begin_ = std::move(begin); }
    // `begin_held` does so. It is called when the batch is flushed, too.
    void on_begin_held(std::function<void()> begin_held) { begin_held_ = std::move(begin_held); }

  private:
    bool shares_kernel(const transfer::Send& send) GPURUN_REQUIRES(engine_lock);
    // More requests in the host's order are about to be started, if they go on as they lately did.
    bool expects_more() const GPURUN_REQUIRES(engine_lock) { return completes_directly_ && last_start_ns_ != 0; }
    void launch_exchanges() GPURUN_REQUIRES(engine_lock);
    void defer() GPURUN_REQUIRES(engine_lock);
    void post() GPURUN_REQUIRES(engine_lock);
    void note_series() GPURUN_REQUIRES(engine_lock);
    void end_interrupted(const transfer::Operand& operand, int64_t entered_ns) GPURUN_REQUIRES(engine_lock);
    void end_series(bool directly) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Series series_;
    std::atomic<bool> series_open_{false}; // relaxed: a hint
    bool allowed_ = false;
    uint32_t starts_ = 0;
    int64_t last_start_ns_ = 0; // its end, of those behind a receive that was posted; 0: there is none
    bool completes_directly_ = false;
    uint32_t held_sends_ = 0; // that are not posted
    // Relaxed, as the next: whoever looks without the lock only decides when it takes it.
    std::atomic<int64_t> deferred_until_ns_{0}; // 0: nothing is deferred
    std::atomic<int64_t> last_deferred_ns_{-kOftenNs};
    std::function<void()> begin_ = [] {};
    std::function<void()> begin_held_ = [] {};
};

} // namespace gpurun::comm
