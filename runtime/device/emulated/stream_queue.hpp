// One emulated stream: a bounded queue of operations, executed in order by a thread of its own.
//
// The thread sleeps when the queue is empty, and on the awaited word while it waits for one; an idle stream uses
// no CPU. Enqueuing copies a small operation into a ring that is allocated once. When the ring is full the
// enqueuer waits, as it does on a GPU. While the stream is captured, what is enqueued goes into a graph instead.
//
// Destroying a StreamQueue drops operations that it has not executed; wait() first executes them.
#pragma once

#include "base/status.hpp"
#include "device/emulated/control.hpp"
#include "device/emulated/delays.hpp"
#include "device/emulated/operations.hpp"
#include "platform/quiet_thread.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

namespace gpurun::device::emulated {

class StreamQueue {
  public:
    static constexpr size_t kMostOperations = 1024; // enqueued and not yet executed

    // `progress` is the stream's word in the control area; `slot`, its number, goes back to `slots` at the end. `name`
    // is no other's, ever. Whoever calls a host function holds `host_functions`.
    StreamQueue(uint64_t name, std::atomic<uint64_t>& progress, uint32_t slot, Slots& slots, std::mutex& host_functions,
                Pace pace);
    ~StreamQueue();
    // Once, before anything else. kSystem where there is no thread to be had.
    base::Result<void> start();
    StreamQueue(const StreamQueue&) = delete;
    StreamQueue& operator=(const StreamQueue&) = delete;

    // kUnsupported from inside a function that the stream runs.
    base::Result<void> enqueue(const Operation& operation);
    // Enqueues a mark: what stands for everything enqueued so far, in events.
    base::Result<Record> mark();
    // Until everything enqueued so far is executed. kStream while the stream is captured.
    base::Result<void> wait();
    bool idle();
    uint64_t name() const { return name_; }

    // kStream if it is captured already.
    base::Result<void> begin_capture();
    // kStream unless its capture was begun here, and all streams that joined it were joined back.
    base::Result<std::shared_ptr<GraphBody>> end_capture();
    std::shared_ptr<GraphBody> captured(); // null if it is not
    // What the stream has enqueued so far, for an event. REQUIRES captured().
    size_t mark_captured();
    // What follows comes after that, and is captured too.
    base::Result<void> join_capture(const std::shared_ptr<GraphBody>& body, size_t edge);
    void leave_capture(const std::shared_ptr<GraphBody>& body);

    // What waits here for a process that is known to be dead goes on.
    void release_dead();

  private:
    // Waits for room. The lock is held on return.
    base::Result<std::unique_lock<std::mutex>> lock_with_room();
    void push(const Operation& operation);
    void work();
    bool is_worker() const { return worker_ && ::pthread_equal(::pthread_self(), *worker_) != 0; }
    // False if it was cut short because the queue is abandoned: what follows must not run.
    bool execute(Operation& operation);
    bool call_host(const CallHost& call);
    void copy_if_came(const CopyIfCame& operation);
    void run(const Fill& fill);
    static void run(const ReduceElements::Arguments& reduce);
    bool take_mails(TakeMails& operation);
    void take_mail(const TakeMails::One& one, int64_t began_ns);
    bool await(std::atomic<uint64_t>& word, uint64_t value);

    // channel_operations.cpp
    // In a word whose writer has died; runs stay far below. Sleepers notice by the low half (platform/wake.hpp).
    static constexpr uint64_t kMortalGone = uint64_t{1} << 62 | uint64_t{1} << 31;
    enum class Wait { kCame, kDead, kAbandoned };
    Wait await_run(const Channel& channel, std::atomic<uint64_t>& word, uint64_t value);
    bool put(const ChannelPut& operation);
    bool take(const ChannelTake& operation);
    bool await_taken(const ChannelAwaitTaken& operation);
    static void tell(const ChannelTellTaken& operation);
    bool reduce_channels(const ReduceChannels::Arguments& all);
    static void tell_taken(const Channel& channel);
    static void tell(const Channel& channel, uint64_t taken);
    static void log_run(const Channel& channel, uint64_t run, int64_t began_ns, int64_t moving_ns);

    const uint64_t name_;
    std::atomic<uint64_t>& progress_;
    const uint32_t slot_;
    Slots& slots_;
    std::mutex& host_functions_;
    Pace pace_; // the worker's

    std::mutex mutex_;
    std::condition_variable enqueued_; // the worker sleeps here
    std::condition_variable executed_; // wait() and enqueuers without room sleep here
    std::vector<Operation> ring_;      // [head_, tail_) modulo its size; an element is the worker's until head_ passes
    uint64_t head_ = 0;
    uint64_t tail_ = 0;
    uint64_t marks_;
    int sleepers_ = 0; // on executed_
    std::shared_ptr<GraphBody> captured_;
    size_t branch_ = 0;                            // of captured_
    std::atomic<uint64_t>* mortal_word_ = nullptr; // what the worker awaits, if whoever writes it may die
    const Counter* mortal_alive_ = nullptr;

    std::atomic<bool> abandoned_{false}; // set under mutex_; the worker reads it inside await() without
    std::atomic<bool> ended_{false};     // by the worker, as its last act
    std::atomic<std::atomic<uint64_t>*> awaited_{nullptr}; // the word on which the worker may be asleep
    std::optional<platform::QuietThread> worker_;
};

} // namespace gpurun::device::emulated
