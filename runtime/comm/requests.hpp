// Requests: starting, completing some of several, cancelling, giving up. Takes the engine lock.
#pragma once

#include "comm/messages.hpp"

#include <vector>

namespace gpurun::comm {

// The order domain that a request is completed into, and its stream, unless that is the host.
struct Order {
    transfer::Domain domain = transfer::Domain::kHost;
    device::Stream stream;

    bool on_stream() const { return domain != transfer::Domain::kHost; }
    bool captured() const { return domain == transfer::Domain::kGraph; }
};

class Requests {
  public:
    Requests(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, Messages& messages,
             Background& background)
        : core_(core), progress_(progress), batch_(batch), waiter_(waiter), alarms_(alarms), messages_(messages),
          background_(background) {}

    // make(): a request that is not started yet. start(): one whose message is under way, or has failed, which the call
    // that completes it reports. Both return its name.
    uint64_t make(const Task& task);
    uint64_t start(const Task& task, int64_t entered_ns = 0);
    void start_again(std::span<Request* const> requests, int64_t entered_ns = 0);
    // For `entered_ns`, as a call begins (Batch).
    int64_t entry_time() const { return batch_.entry_time(); }
    // It is active from now on, and begun with its group.
    void hold(Request& request);
    // Null if no request has the name, or none has it any more.
    Request* find(uint64_t name);

    // What a call that completes requests wants. Requests that are not active count as complete, as does name 0.
    enum class Need { kAll, kOne, kSome };
    struct Ask {
        std::span<uint64_t> names; // set to 0 where the request has been released
        Order order;
        Need need = Need::kAll;
        bool may_wait = true;
        bool tell_all = true; // call Settle for each; else only for those that did not end well
        int64_t entered_ns = 0;
    };
    // Called for each request that is completed, before it is released.
    using Settle = base::FunctionRef<void(size_t index, const Request& done)>;
    // Waits (if it may) until the need can be met, then completes those requests; false if that would take waiting.
    // kRequest, before anything else, if a name is unknown. Any other error is the device's; Settle has been called for
    // what was completed before it.
    base::Result<bool> complete(const Ask& ask, Settle settle);
    // Withdraws a receive, or a loan, unless it is matched. Of a loan its target decides that.
    void cancel(Request& request);
    // Nobody will complete it: it is released once it is done.
    base::Result<void> abandon(Request& request);

    // Of a loan that nobody has received. Its target decides that.
    void withdraw(transfer::Send& loan) GPURUN_REQUIRES(engine_lock);
    // ---- for groups, under the lock
    void begin(Request& request, std::optional<int64_t> entered_ns = std::nullopt) GPURUN_REQUIRES(engine_lock);
    // Of those in streams that are captured, behind begin() and before anything that the call waits for in the stream:
    // marks where the receives begin, and waits until all that is sent is enqueued.
    void enqueue_captured(EngineLock& lock, std::span<Request* const> requests) GPURUN_REQUIRES(engine_lock);

  private:
    class Goal;

    base::Result<void> mark_starts(std::span<Request* const> requests) GPURUN_REQUIRES(engine_lock);
    void await_room(EngineLock& lock, std::span<Request* const> requests) GPURUN_REQUIRES(engine_lock);
    void start_all(std::span<Request* const> requests, int64_t entered_ns);
    bool begin_send(Request& request) GPURUN_REQUIRES(engine_lock);
    void begin_receive(Request& request) GPURUN_REQUIRES(engine_lock);
    void begin_lend(Request& request) GPURUN_REQUIRES(engine_lock);
    base::Result<void> describe_loan(Request& request) GPURUN_REQUIRES(engine_lock);
    base::Result<void> check(const Ask& ask) GPURUN_REQUIRES(engine_lock);
    uint64_t capture_of(device::Stream stream) GPURUN_REQUIRES(engine_lock);
    bool is_in_capture(Request& request) GPURUN_REQUIRES(engine_lock);
    base::Result<void> check_same_capture(Request& request, const Order& order) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> complete_met(EngineLock& lock, const Ask& ask, const Settle& settle)
        GPURUN_REQUIRES(engine_lock);
    base::Result<bool> complete_in_turn(EngineLock& lock, const Ask& ask, const Settle& settle)
        GPURUN_REQUIRES(engine_lock);
    void end(const Ask& ask, size_t index, Request& request, const Settle& settle) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> wait_until_met(EngineLock& lock, const Ask& ask) GPURUN_REQUIRES(engine_lock);
    base::Result<void> complete_each(const Ask& ask, const Settle& settle) GPURUN_REQUIRES(engine_lock);
    Request* find_in_series(uint64_t name) GPURUN_REQUIRES(engine_lock);
    bool completes_series(const Ask& ask) GPURUN_REQUIRES(engine_lock);
    void move_together(const Ask& ask) GPURUN_REQUIRES(engine_lock);
    void gather(const Ask& ask) GPURUN_REQUIRES(engine_lock);
    void pair_with_own(std::span<Request* const> all) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> complete_collectives(EngineLock& lock, const Ask& ask, const Settle& settle)
        GPURUN_REQUIRES(engine_lock);
    void expect_fused(const Ask& ask) GPURUN_REQUIRES(engine_lock);
    base::Result<void> arm(std::span<const uint64_t> names) GPURUN_REQUIRES(engine_lock);
    base::Result<void> arm(const Request& request) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    Batch& batch_;
    Waiter& waiter_;
    Alarms& alarms_;
    Messages& messages_;
    Background& background_;
    bool peers_answer_ = false; // what this rank receives in the host's order comes after what it sends there
    // Of move_together(): memory for the next call.
    std::vector<Request*> together_;
    std::vector<transfer::Send*> own_sends_;
    std::vector<PostedReceive*> receives_;
};

} // namespace gpurun::comm
