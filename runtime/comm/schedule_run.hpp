// One run of a schedule: the operations of its steps, in one order domain.
//
// A step starts once the steps before it are complete in the schedule's order domain: in the host's order, when they
// are done; in a stream, when they are enqueued there, since what follows in the stream comes after them anyway. If a
// step fails, steps that have not started never do, and the others end as well.
//
// If its ranks have not called the same, it breaks off: no more steps start, receives that are not matched are
// withdrawn, and what was sent ends as its targets take it in.
//
// Scratch memory is taken from the pool when the run starts, and given back once every step is complete.
//
// A blocking call runs it in the caller's stream itself. A request runs it in an internal stream, which starts where
// the caller's stream was, so that this goes on; its end is an event there. So does what is called in the host's order
// for device memory: one kernel of a stream does what would be several operations, each of which the host waits for.
//
// Belongs to comm/schedules.hpp, which uses its memory again; used under the engine lock.
#pragma once

#include "comm/messages.hpp"
#include "comm/mismatch.hpp"
#include "comm/schedule.hpp"

#include <deque>

namespace gpurun::comm {

struct Running; // the list of runs

class ScheduleRun final : public CollectiveOp, public base::Linked<ScheduleRun, Running> {
  public:
    struct Hooks {
        std::function<void(ScheduleRun&)> take_back; // it is released: its memory can be used again
        std::function<void(ScheduleRun&)> begin;     // one that is held is to begin where it was called
    };
    ScheduleRun(Hooks hooks, Core& core, Messages& messages, PeerFailure& failure)
        : hooks_(std::move(hooks)), core_(core), messages_(messages), failure_(failure) {}

    // To be filled before start().
    Schedule& schedule() { return schedule_; }
    const Schedule& schedule() const { return schedule_; }

    // A request's run in the order of a stream takes an internal one, which starts where that stream is now, or was
    // when it was held.
    void take_stream(const transfer::Operand& order) GPURUN_REQUIRES(engine_lock);
    // It begins later (Series): for other ranks, this one has not called it yet. Remembers where the stream is now;
    // false if that cannot be.
    using Build = std::function<void(Schedule&)>;
    struct Held {
        Signature call;
        const Communicator* comm;
        transfer::Operand buffer;
        Build build;
    };
    bool hold(Held held) GPURUN_REQUIRES(engine_lock);
    // What is to be done now. `in_place`: in the program's stream itself.
    Held end_hold(bool in_place) GPURUN_REQUIRES(engine_lock);
    // One in the host's order runs in an internal stream, unless streams are scarce. (If runs shared one, they could
    // wait for each other: what a kernel puts waits with it for what it takes.)
    void try_stream() GPURUN_REQUIRES(engine_lock);
    bool has_stream() const { return stream_ && stream_->is_internal(); }
    device::Stream stream() const { return stream_->internal(); } // REQUIRES has_stream()
    // `order` is an operand without bytes: the order domain, unless it has a stream. Not captured if it is for a
    // request.
    void start(const transfer::Operand& order) GPURUN_REQUIRES(engine_lock);
    // Starts what can be started, and looks for the end. True if anything has changed.
    bool advance() GPURUN_REQUIRES(engine_lock);
    void fail(const base::Error& error) GPURUN_REQUIRES(engine_lock);
    // Ends it at once.
    void abandon(const base::Error& error) GPURUN_REQUIRES(engine_lock);

    // ---- whether all ranks have called it alike (comm/collective_check.hpp)
    void count_arrived(size_t messages = 1) { arrived_ += messages; } // of it
    // An error that it ends with, and that does not keep it from its end.
    void note_mismatch(const base::Error& error) {
        if (!mismatch_)
            mismatch_ = error;
    }
    // No more of it starts. Takes effect when it is next advanced.
    void break_off(const base::Error& error) {
        note_mismatch(error);
        broken_ = true;
        awaited_calls_.clear();
    }
    bool is_broken() const { return broken_; }
    // What it has found itself, once.
    std::optional<Mismatch> take_found() { return std::exchange(found_, std::nullopt); }
    // How it has failed on this rank, so that others may wait for it in vain. Said once.
    std::optional<base::Status> take_failure() { return std::exchange(failed_here_, std::nullopt); }
    // Whether it expects a message of that rank, and none has come.
    bool awaits(WorldRank source) const;
    // True once for each: it has been asked what it has called.
    bool note_asked(WorldRank source);
    // No step starts before these are taken out again.
    void await_call(WorldRank rank, const CallNote& own) { awaited_calls_.push_back({rank, own}); }
    std::optional<CallNote> take_awaited_call(WorldRank rank);
    // ---- of one that was released
    bool ended_well() const { return ended_well_; }
    bool has_surplus() const { return surplus_; } // messages have come that it did not receive

    // ---- as a collective that is under way
    const char* name() const override { return base::name_of(held_ ? held_->call.kind() : schedule_.kind()); }
    bool done() const override { return enqueued() && !end_; }
    // Every step is complete, or has failed and touches its buffers no more.
    bool enqueued() const override { return complete_ == schedule_.steps().size() && awaited_calls_.empty() && !held_; }
    base::Result<void> complete_into(device::Stream stream) override GPURUN_REQUIRES(engine_lock);
    void begin_in_place() override GPURUN_REQUIRES(engine_lock) {
        if (held_)
            hooks_.begin(*this);
    }
    const base::Error* error() const override {
        if (error_)
            return &*error_;
        return mismatch_ && enqueued() ? &*mismatch_ : nullptr;
    }
    size_t received_bytes() const override {
        const auto received = schedule_.received();
        if (!received || error() != nullptr) // one that broke off may have received nothing
            return 0;
        return *received == Schedule::kDone ? schedule_.received_done() : bytes_of(*received);
    }
    base::Result<void> arm(Alarms& alarms) const override GPURUN_REQUIRES(engine_lock);
    // It has steps that start once the device is done with others, of which nobody notifies this rank.
    bool awaits_device() const;
    void for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                          base::FunctionRef<void(const PostedReceive&)> receive) const override;
    std::optional<device::Stream> awaited_stream() const override {
        return end_ ? std::optional(stream_->internal()) : std::nullopt;
    }
    void for_each_absent(base::FunctionRef<void(WorldRank rank, uint32_t context)> absent) const override;
    void release() override;

  private:
    struct State {
        bool started = false;
        bool complete = false;
        bool handed_over = false; // of a receive: a reduction has read its message where it was
        // A copy may have both halves, of a message to this rank itself.
        transfer::Operand from;
        std::optional<transfer::Send> send;
        transfer::Operand into;
        LocalReceive home;
        std::optional<PostedReceive> receive; // before its home in destruction
        transfer::EventLease reduced;         // in the host's order: what the device still does

        bool is_over() const { return (!send || send->done()) && (!receive || receive->done()) && !reduced; }
        // Calls with each operation that it has so far.
        template <typename Visit>
        void for_each_operation(const Visit& visit) const {
            if (send)
                visit(const_cast<transfer::Send&>(*send));
            if (receive && receive->made_op() != nullptr)
                visit(*receive->made_op());
        }
    };
    bool can_start(const Schedule::Step& step) const GPURUN_REQUIRES(engine_lock);
    transfer::Ending ending_of_receive(Schedule::StepId receive) const;
    // Whether what the step receives was left in a mail, or with its source, so that a reduction can read it there.
    bool is_left(Schedule::StepId receive) const;
    bool is_answered(const Schedule::Step& step) const;
    bool await_peers() GPURUN_REQUIRES(engine_lock);
    void await_readers() GPURUN_REQUIRES(engine_lock);
    void take_left(Schedule::StepId receive) GPURUN_REQUIRES(engine_lock);
    void make_states(); // of all steps
    // Of the collective, that move at the same time as one of its messages.
    uint32_t messages_beside() const { return std::max(static_cast<uint32_t>(schedule_.comm().size()), 2U) - 1; }
    void stage() GPURUN_REQUIRES(engine_lock);
    bool reaches_all() GPURUN_REQUIRES(engine_lock);
    base::Result<void> take_scratch() GPURUN_REQUIRES(engine_lock);
    base::Result<void> take_scratch(transfer::ScratchPool::Kind kind) GPURUN_REQUIRES(engine_lock);
    bool has_used_scratch() const;
    void give_scratch_back() GPURUN_REQUIRES(engine_lock);
    base::Result<void> start_step(Schedule::StepId step) GPURUN_REQUIRES(engine_lock);
    void start_send(Schedule::StepId step, const transfer::Operand& from, Rank to) GPURUN_REQUIRES(engine_lock);
    void start_receive(Schedule::StepId step, const transfer::Operand& into, Rank from) GPURUN_REQUIRES(engine_lock);
    base::Result<void> start_copy(Schedule::StepId step) GPURUN_REQUIRES(engine_lock);
    base::Result<void> start_reduction(Schedule::StepId step) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> fuse_reduction(const Schedule::Step& step) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> fuse_in_graph(const Schedule::Step& step) GPURUN_REQUIRES(engine_lock);
    bool is_reduced_by_device(const Schedule::Step& step) const;
    bool is_in_place(const Schedule::Step& step) const;
    std::optional<size_t> operand_from(Schedule::StepId receive, const Schedule::Step& reduction, size_t& number,
                                       size_t most) const;
    base::Result<void> start_ready_steps() GPURUN_REQUIRES(engine_lock);
    // Whether the send's end must not be awaited yet.
    bool holds_end(Schedule::StepId id) const GPURUN_REQUIRES(engine_lock);
    // Whether the step has come to its end.
    base::Result<bool> settle_step(State& state, bool end_is_held) GPURUN_REQUIRES(engine_lock);
    base::Result<bool> settle_steps() GPURUN_REQUIRES(engine_lock);
    void check_length(Schedule::StepId step) GPURUN_REQUIRES(engine_lock);
    // A buffer in the schedule's order.
    transfer::Operand operand_of(const Schedule::Buffer& buffer) const;
    // The true length of what a step has received.
    size_t bytes_of(Schedule::StepId step) const {
        const auto& receive = states_[step].receive;
        GPURUN_ASSERT(receive && receive->started());
        return receive->arrived().bytes;
    }
    bool advance_steps() GPURUN_REQUIRES(engine_lock);
    bool receive_before_sends_end() GPURUN_REQUIRES(engine_lock);
    void start_steps() GPURUN_REQUIRES(engine_lock);
    void end_receive(State& state) GPURUN_REQUIRES(engine_lock);
    void leave_steps() GPURUN_REQUIRES(engine_lock);
    void end_by(const base::Error& error, bool at_once) GPURUN_REQUIRES(engine_lock);
    void end_steps(const base::Error& error, bool at_once) GPURUN_REQUIRES(engine_lock);
    void end_reduction(State& state, bool at_once) GPURUN_REQUIRES(engine_lock);
    void note_complete(State& state);
    bool look_for_end() GPURUN_REQUIRES(engine_lock);
    void give_stream_back(transfer::InternalStreams::State state);

    Hooks hooks_;
    Core& core_;
    Messages& messages_;
    PeerFailure& failure_;
    Schedule schedule_;
    transfer::Operand order_;
    std::optional<Held> held_;                  // it has not begun
    std::optional<transfer::StreamUse> stream_; // a request's own
    transfer::EventLease end_event_;            // in it, behind all steps
    std::optional<transfer::CompletionPoint> end_;
    std::deque<State> states_; // by step, and more
    size_t complete_ = 0;
    transfer::ScratchPool::Block* scratch_ = nullptr;
    std::optional<base::Error> error_;
    std::optional<base::Error> mismatch_; // of ranks that have called something else
    struct AwaitedCall {
        WorldRank rank;
        CallNote own;
    };
    std::vector<AwaitedCall> awaited_calls_;
    std::optional<Mismatch> found_;
    std::vector<WorldRank> asked_;
    std::optional<base::Status> failed_here_;
    size_t arrived_ = 0;
    bool broken_ = false;
    bool staged_ = false; // its steps work on copies of the program's buffers
    bool ended_well_ = false;
    bool surplus_ = false;
};

} // namespace gpurun::comm
