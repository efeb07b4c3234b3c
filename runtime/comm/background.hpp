// The background thread: makes progress while the program computes, so that peers need not wait for this rank.
//
// It is on duty while requests are under way. It sleeps on a doorbell of its own. Peers ring that only if they need
// this rank to do something (Notify::kAlways), and only while no thread of the rank makes progress in a call. So a rank
// that is in calls pays nothing for its thread, and an idle one uses no CPU. A message that carries its bytes stays in
// the ring until a call looks: its source does not wait.
#pragma once

#include "comm/alarms.hpp"
#include "comm/progress.hpp"
#include "platform/quiet_thread.hpp"

#include <atomic>
#include <condition_variable>
#include <optional>

namespace gpurun::comm {

class Background {
  public:
    Background(Core& core, Progress& progress, Batch& batch, Alarms& alarms, bool wanted);

    // As long as it lives, its call makes progress, and the background thread need not. Created and destroyed under the
    // lock.
    class Attendance {
      public:
        enum class Batches : uint8_t { kEnd, kGoOn }; // of a call that starts, and does not wait
        explicit Attendance(Background& background, Batches batches = Batches::kEnd) GPURUN_REQUIRES(engine_lock);
        ~Attendance() GPURUN_REQUIRES(engine_lock);
        Attendance(const Attendance&) = delete;
        Attendance& operator=(const Attendance&) = delete;

      private:
        Background& background_;
        bool announced_;
    };
    // The call ends, and leaves the requests that are under way to the thread.
    void leave_to() GPURUN_REQUIRES(engine_lock);
    bool on_duty() const { return on_duty_; }
    // From now on the thread is on duty without requests, too: graphs exchange messages without calls, and somebody has
    // to notice that a peer dies; a lender may ask this rank to unmap what it has borrowed before; and who asks what is
    // lent is to be told who has borrowed it.
    void keep_watch() GPURUN_REQUIRES(engine_lock) { watches_ = true; }
    // What goes on beside operations.
    struct Others {
        std::function<bool()> under_way = [] { return false; };  // whatever comes may be for it
        std::function<bool()> needs_hand = [] { return false; }; // only if a thread of this rank is woken for it
    };
    void mind(Others others) { others_ = std::move(others); }
    void stop(EngineLock& lock) GPURUN_REQUIRES(engine_lock);

  private:
    bool has_duty() const GPURUN_REQUIRES(engine_lock) {
        return core_.requests().any_under_way() || watches_ || core_.resources().returning != 0 ||
               core_.resources().unmapping != 0 || core_.resources().ending != 0;
    }
    void start() GPURUN_REQUIRES(engine_lock);
    void wake();
    void work() GPURUN_NO_ANALYSIS;
    void rest(EngineLock& lock) GPURUN_NO_ANALYSIS;
    void sleep(EngineLock& lock, int64_t timeout_ns, uint32_t rung) GPURUN_REQUIRES(engine_lock);
    bool is_rung(uint32_t& rung, bool minds_batch); // without the lock
    void attend(EngineLock& lock, Patience& patience) GPURUN_REQUIRES(engine_lock);
    // Before it sleeps: whether any record wakes it from now on. True if that has begun, so it has to look again.
    bool become_urgent() GPURUN_REQUIRES(engine_lock);
    void end_urgency() GPURUN_REQUIRES(engine_lock);
    bool needs_hand() const GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    Batch& batch_;
    Alarms& alarms_;
    std::optional<platform::QuietThread> thread_; // started with the first request that a call leaves active
    std::condition_variable_any called_;
    Others others_;
    bool wanted_; // GPURUN_PROGRESS=thread; false, too, once the system has refused a thread
    bool watches_ = false;
    bool on_duty_ = false;
    std::atomic<bool> stops_{false};
    bool sleeps_calmly_ = false; // it is not urgent
    bool is_urgent_ = false;     // as platform::presence says
    int64_t last_urgent_ns_ = 0;
    // It knows of the deferred batch, or has been rung for it. Written under the lock.
    std::atomic<bool> minds_batch_{false};
    std::atomic<bool> left_to_call_{false}; // a ring that it has not answered
};

} // namespace gpurun::comm
