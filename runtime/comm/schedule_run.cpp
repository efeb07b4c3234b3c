#include "comm/schedule_run.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

namespace gpurun::comm {

using base::Result;
using transfer::Ending;
using transfer::Operand;
using StepKind = Schedule::Step::Kind;
using StepId = Schedule::StepId;

namespace {

// A copy up to this length shares a kernel with mails, whatever the user has said of copies by kernels.
constexpr size_t kLeastBytesBeside = size_t{256} << 10;

} // namespace

void ScheduleRun::take_stream(const Operand& order) {
    if (!stream_) {
        order_ = order;
        stream_.emplace(core_.resources(), order_);
    }
    if (auto taken = stream_->take(true); !taken)
        fail(taken.error());
}

bool ScheduleRun::hold(Held held) {
    order_ = held.buffer.without_bytes();
    stream_.emplace(core_.resources(), order_);
    if (!stream_->set_marker()) {
        stream_.reset();
        return false;
    }
    held_ = std::move(held);
    return true;
}

ScheduleRun::Held ScheduleRun::end_hold(bool in_place) {
    Held held = std::move(*held_);
    held_.reset();
    if (in_place) {
        stream_->give_marker_back();
        stream_.reset();
    }
    return held;
}

void ScheduleRun::try_stream() {
    order_ = Operand{};
    stream_.emplace(core_.resources(), order_);
    auto taken = stream_->take_spare();
    if (taken && *taken)
        order_.domain = transfer::Domain::kStream;
    else
        stream_.reset();
}

void ScheduleRun::start(const Operand& order) {
    if (!has_stream())
        order_ = order;
    make_states();
    const Group& group = schedule_.members();
    if (failure_.any_lost(group)) {
        fail(failure_.member_died(group));
        give_stream_back(transfer::InternalStreams::State::kRunning);
        return;
    }
    if (!error_) {
        stage();
        if (auto taken = take_scratch(); !taken)
            fail(taken.error());
    }
    (void)advance_steps(); // and not for its end, which has hardly come
}

void ScheduleRun::make_states() {
    if (states_.size() < schedule_.steps().size())
        states_.resize(schedule_.steps().size());
}

void ScheduleRun::release() {
    assume_engine_lock();
    const auto receives = [](const State& each) { return each.receive.has_value(); };
    surplus_ = arrived_ > static_cast<size_t>(std::count_if(states_.begin(), states_.end(), receives));
    ended_well_ = !error_ && !mismatch_;
    for (State& each : states_) {
        each.started = each.complete = each.handed_over = false;
        each.send.reset();
        each.receive.reset();
        each.reduced.reset();
    }
    give_scratch_back();
    give_stream_back(transfer::InternalStreams::State::kStuck); // of one that was abandoned
    complete_ = 0;
    error_.reset();
    mismatch_.reset();
    asked_.clear();
    failed_here_.reset();
    arrived_ = 0;
    broken_ = false;
    staged_ = false;
    hooks_.take_back(*this);
}

void ScheduleRun::note_complete(State& state) {
    state.started = state.complete = true;
    ++complete_;
}

bool ScheduleRun::can_start(const Schedule::Step& step) const {
    const auto before = schedule_.before(step);
    return std::all_of(before.begin(), before.end(), [&](StepId each) {
        return states_[each].complete || (step.kind == StepKind::kReduce && is_left(each));
    });
}

bool ScheduleRun::is_left(StepId receive) const {
    const auto& of = states_[receive].receive;
    return of && of->made_op() != nullptr && of->made_op()->is_left();
}

Operand ScheduleRun::operand_of(const Schedule::Buffer& buffer) const {
    Operand operand = buffer.in(order_);
    if (buffer.scratch) {
        operand.address = scratch_->data + *buffer.scratch;
        operand.where = scratch_->where;
    }
    return operand;
}

Ending ScheduleRun::ending_of_receive(StepId receive) const {
    const Schedule::Step& step = schedule_.steps()[receive];
    const transfer::Resources& resources = core_.resources();
    const bool fuses = order_.captured() ? resources.captured_exchange.can_reduce() : resources.exchanges.can_reduce();
    // Ranks that read what others send before they let these go on would wait for each other.
    if (schedule_.is_operand(step) && fuses)
        return schedule_.is_read_after_sends(step) ? Ending::kKeptMail : Ending::kKept;
    return Ending::kOfCollective;
}

Result<void> ScheduleRun::start_step(StepId id) {
    const Schedule::Step& step = schedule_.steps()[id];
    if (is_answered(step)) {
        note_complete(states_[id]);
        return {};
    }
    states_[id].started = true;
    switch (step.kind) {
    case StepKind::kLocal:
        if (order_.captured())
            GPURUN_TRY(core_.resources().captured_exchange.launch());
        return step.work(order_);
    case StepKind::kCopy: return start_copy(id);
    case StepKind::kReduce: return start_reduction(id);
    case StepKind::kReceive: start_receive(id, operand_of(step.buffer), step.peer); return {};
    case StepKind::kSend: break;
    }
    Operand from = operand_of(step.buffer);
    if (step.bytes_of)
        from.bytes = std::min(from.bytes, bytes_of(*step.bytes_of));
    start_send(id, from, step.peer);
    return {};
}

// Whether the reduction has written the answer that the step would send or receive.
bool ScheduleRun::is_answered(const Schedule::Step& step) const {
    if (!step.answers)
        return false;
    const State& answered = states_[*step.answers];
    if (step.kind == StepKind::kSend)
        return answered.handed_over && answered.receive->made_op()->state()->answer_written();
    return answered.send && answered.send->answer_written();
}

void ScheduleRun::start_send(StepId id, const Operand& from, Rank to) {
    const Communicator& comm = schedule_.comm();
    State& state = states_[id];
    state.from = from;
    // In a graph the stream waits for what is sent once all that can go at the same time has been enqueued.
    const Ending ending = order_.captured() ? Ending::kByCompletion : Ending::kTogether;
    const Schedule::Step& step = schedule_.steps()[id];
    transfer::Send::Mode mode{.ending = ending,
                              .signature = schedule_.signature().bits(),
                              .reduced = step.reduced,
                              .beside = messages_beside()};
    const auto ranks = static_cast<size_t>(comm.size());
    if (step.answered_by && (!order_.captured() || transfer::CapturedExchange::admits(ranks)))
        mode.answer = operand_of(schedule_.steps()[*step.answered_by].buffer);
    state.send.emplace(core_.resources(), core_.peer(comm.group().world(to)), state.from,
                       transfer::Envelope{comm.collective_context(), schedule_.tag(step.round), from.bytes}, mode);
    messages_.start(*state.send);
}

void ScheduleRun::start_receive(StepId id, const Operand& into, Rank from) {
    const Communicator& comm = schedule_.comm();
    State& state = states_[id];
    state.into = into;
    const int tag = schedule_.tag(schedule_.steps()[id].round);
    state.receive.emplace(core_.resources(), state.home, state.into,
                          Pattern::of(comm.group(), comm.collective_context(), from.value, tag),
                          ReceiveMode{.ending = ending_of_receive(id)});
    messages_.start(*state.receive);
}

// By the CPU or by the stream, if it reaches both buffers; else it is a message to this rank itself, of which it sends
// no others.
Result<void> ScheduleRun::start_copy(StepId id) {
    const Schedule::Step& step = schedule_.steps()[id];
    const Operand into = operand_of(step.buffer);
    const Operand from = operand_of(schedule_.operands(step).front());
    if (into.by_cpu() && from.by_cpu()) {
        std::memcpy(into.address, from.address, into.bytes);
        return {};
    }
    const bool both_on_host = into.in_host_memory() && from.in_host_memory();
    const bool by_stream = order_.on_stream() && into.by_device() && from.by_device();
    transfer::Exchanges& exchanges = core_.resources().exchanges;
    const bool is_beside = by_stream && exchanges.has_mails() && !order_.captured();
    const bool crosses = into.in_host_memory() != from.in_host_memory(); // which copy engines do better
    const size_t most_beside = crosses ? 0 : core_.resources().collective_copy_bytes();
    if (is_beside && into.bytes <= std::max(kLeastBytesBeside, most_beside)) {
        exchanges.copy({into.address, from.address, into.bytes}, order_.stream);
        return {};
    }
    if (order_.captured())
        GPURUN_TRY(core_.resources().captured_exchange.launch());
    if (by_stream && !both_on_host)
        return core_.device().copy(into.address, from.address, into.bytes, order_.stream);
    if (both_on_host && staged_)
        return transfer::copy_in_stream(core_.resources(), into, into.address, from.address, into.bytes, order_.stream);
    GPURUN_TRY(core_.resources().fused.launch_copies());
    start_send(id, from, schedule_.comm().rank());
    start_receive(id, into, schedule_.comm().rank());
    return {};
}

// A rank that sends less or more than is expected has been called with another count, or another type.
void ScheduleRun::check_length(StepId id) {
    const Schedule::Step& step = schedule_.steps()[id];
    if (broken_ || found_ || step.kind != StepKind::kReceive || !step.exact || bytes_of(id) == step.buffer.bytes)
        return;
    const uint64_t signature = schedule_.signature().bits();
    const Group& group = schedule_.comm().group();
    found_ = Mismatch{{signature, bytes_of(id), group.world(step.peer)},
                      {signature, step.buffer.bytes, group.world(schedule_.comm().rank())}};
    note_mismatch(found_->error()); // before anybody looks, if this was the last step
}

std::optional<CallNote> ScheduleRun::take_awaited_call(WorldRank rank) {
    const auto found = std::find_if(awaited_calls_.begin(), awaited_calls_.end(),
                                    [&](const AwaitedCall& each) { return each.rank == rank; });
    if (found == awaited_calls_.end())
        return std::nullopt;
    const CallNote own = found->own;
    awaited_calls_.erase(found);
    return own;
}

Result<bool> ScheduleRun::settle_step(State& state, bool end_is_held) {
    if (state.reduced) {
        GPURUN_ASSIGN(const bool come, core_.device().query(state.reduced.get()));
        if (come)
            state.reduced.reset();
    }
    if (end_is_held)
        return false;
    if (order_.captured() && state.send && state.send->enqueued() && !state.send->error())
        GPURUN_TRY(state.send->complete_into(order_.stream));
    if (!state.is_over())
        return false;
    Result<bool> over(true);
    if (broken_)
        return over;
    state.for_each_operation([&](const transfer::Operation& each) {
        if (each.error())
            over = *each.error();
    });
    return over;
}

// In a graph: a peer takes this message once it has put its own, for which this rank may wait by then, and once this
// rank has taken what the peer puts in earlier rounds.
bool ScheduleRun::holds_end(StepId id) const {
    const State& sent = states_[id];
    if (!order_.captured() || !sent.send || !sent.send->awaits_taken())
        return false;
    const auto& steps = schedule_.steps();
    for (StepId i = 0; i < steps.size(); ++i) {
        const State& each = states_[i];
        const bool is_earlier = steps[i].kind == StepKind::kReceive && steps[i].round < steps[id].round;
        const bool is_under_way = each.started && each.receive && !each.receive->done();
        if (!each.complete && (is_earlier || is_under_way))
            return true;
    }
    return false;
}

// True if some step has come to its end.
Result<bool> ScheduleRun::settle_steps() {
    const size_t steps = schedule_.steps().size();
    const size_t complete_before = complete_;
    for (StepId i = 0; i < steps; ++i) {
        State& state = states_[i];
        if (!state.started || state.complete)
            continue;
        GPURUN_ASSIGN(const bool settled, settle_step(state, holds_end(i)));
        if (!settled)
            continue;
        check_length(i);
        note_complete(state);
    }
    return complete_ != complete_before;
}

bool ScheduleRun::advance() {
    const bool moved = advance_steps();
    return look_for_end() || moved;
}

Result<void> ScheduleRun::start_ready_steps() {
    for (StepId i = 0; i < schedule_.steps().size() && awaited_calls_.empty() && !broken_; ++i)
        if (!states_[i].started && can_start(schedule_.steps()[i]))
            GPURUN_TRY(start_step(i));
    return {};
}

// What this rank puts waits for what the others put at the same time. True if something of that has come.
bool ScheduleRun::await_peers() {
    if (core_.resources().exchanges.empty())
        return false;
    const auto missing = [&] {
        return std::count_if(states_.begin(), states_.begin() + static_cast<ptrdiff_t>(schedule_.steps().size()),
                             [](const State& each) { return each.receive && !each.receive->started(); });
    };
    const auto before = missing();
    if (before != 0)
        messages_.await_exchange(Messages::Peers::kSure, [&] { return missing() == 0; });
    return missing() != before;
}

// What others pull or reduce waits for them to say that they do: then one kernel can wait for the end of that, too. Of
// a round, since they may wait for this one before they begin the next.
void ScheduleRun::await_readers() {
    if (!core_.resources().exchanges.signals())
        return;
    const auto& steps = schedule_.steps();
    const auto is_read = [&](StepId id, int round) {
        return !states_[id].send || states_[id].send->enqueued() || steps[id].round > round;
    };
    int round = INT_MAX;
    for (StepId i = 0; i < steps.size(); ++i)
        if (!is_read(i, INT_MAX))
            round = std::min(round, steps[i].round);
    messages_.await_exchange(Messages::Peers::kSure, [&] {
        for (StepId i = 0; i < steps.size(); ++i)
            if (!is_read(i, round))
                return false;
        return true;
    });
}

void ScheduleRun::start_steps() {
    auto failed = start_ready_steps();
    if (failed && await_peers())
        failed = start_ready_steps();
    if (failed)
        await_readers();
    messages_.launch(); // before what depends on these
    if (!failed)
        fail(failed.error());
}

bool ScheduleRun::advance_steps() {
    const size_t complete_before = complete_;
    if (broken_ && order_.captured() && !error_) // what is sent into a graph cannot be taken in by another
        fail(*mismatch_);
    for (bool moved = true; moved && !error_;) {
        start_steps();
        auto settled = error_ ? Result<bool>(false) : settle_steps();
        if (!settled)
            fail(settled.error());
        moved = settled && (*settled || receive_before_sends_end());
    }
    if (order_.captured() && !error_ && enqueued())
        if (auto launched = core_.resources().captured_exchange.launch(); !launched)
            fail(launched.error());
    if (broken_ && !error_ && !enqueued())
        leave_steps();
    if (error_ && !enqueued())
        end_steps(*error_, false);
    if (enqueued())
        give_scratch_back();
    if (stream_ && stream_->is_internal() && !end_ && enqueued()) {
        if (auto recorded = stream_->record_end()) {
            end_event_ = std::move(*recorded);
            end_ = transfer::CompletionPoint::at(end_event_.get());
        } else {
            fail(recorded.error());
            give_stream_back(transfer::InternalStreams::State::kStuck);
        }
    }
    return complete_ != complete_before;
}

// ------------------------------------------------------------------------------------- the end of one in a stream

void ScheduleRun::give_stream_back(transfer::InternalStreams::State state) {
    if (!stream_)
        return;
    end_.reset();
    end_event_.reset();
    stream_->finish(state, {});
    stream_.reset();
}

// True if it has come.
bool ScheduleRun::look_for_end() {
    if (!end_)
        return false;
    auto come = end_->has_come(core_.device());
    if (come && (!*come || failure_.is_losing())) // it may have come by poison
        return false;
    if (!come)
        fail(come.error());
    give_stream_back(come ? transfer::InternalStreams::State::kIdle : transfer::InternalStreams::State::kStuck);
    return true;
}

Result<void> ScheduleRun::complete_into(device::Stream stream) {
    GPURUN_ASSERT(enqueued());
    if (!end_)
        return {};
    GPURUN_TRY(end_->await(core_.device(), stream));
    // What its messages still need of other ranks, `stream` needs now.
    for (const WorldRank each : schedule_.members().members()) {
        core_.peer(each).awaiting_forward.move(stream_->internal(), stream);
        core_.peer(each).awaiting_backward.move(stream_->internal(), stream);
    }
    auto noted = stream_->note_joined(stream);
    give_stream_back(transfer::InternalStreams::State::kWaiting);
    return noted;
}

// What the device still does to the buffers comes to its end by itself.
void ScheduleRun::end_reduction(State& state, bool at_once) {
    if (!state.reduced)
        return;
    const auto come = at_once ? core_.device().synchronize(state.reduced.get()) : Result<void>();
    auto over = core_.device().query(state.reduced.get());
    if (!come || !over || *over) // a device that fails has nothing left to do
        state.reduced.reset();
}

// It broke off: what is matched, and what was sent, goes on to its end.
// Its reduction is never started. The mail's slot has to become free all the same; what is left in a graph fails.
void ScheduleRun::take_left(StepId receive) {
    if (!is_left(receive) || order_.captured())
        return;
    states_[receive].receive->op().enqueue_left();
    messages_.launch();
}

void ScheduleRun::leave_steps() {
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        State& state = states_[i];
        if (state.complete)
            continue;
        take_left(i);
        if (state.receive && !state.receive->started() && !state.receive->done()) {
            end_receive(state);
            state.receive->fail(*mismatch_);
        }
        if (!state.started || state.is_over())
            note_complete(state);
    }
}

void ScheduleRun::end_receive(State& state) {
    core_.matcher().withdraw(*state.receive);
    (void)state.receive->op();
}

void ScheduleRun::end_steps(const base::Error& error, bool at_once) {
    if (order_.captured()) // what is put there belongs to no later graph
        (void)core_.resources().captured_exchange.launch();
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        State& state = states_[i];
        if (state.complete)
            continue;
        take_left(i);
        if (state.receive && !state.receive->done())
            end_receive(state);
        state.for_each_operation([&](transfer::Operation& operation) {
            if (!operation.done() && at_once)
                operation.abandon(error);
            else if (!operation.done() && !operation.error())
                operation.fail(error);
        });
        end_reduction(state, at_once);
        if (state.is_over())
            note_complete(state);
    }
}

// What fails by a death, or has broken off, the others know.
void ScheduleRun::end_by(const base::Error& error, bool at_once) {
    if (!error_) {
        error_ = error;
        if (!broken_ && error.status != base::Status::kPeerLost)
            failed_here_ = error.status;
    }
    awaited_calls_.clear();
    end_steps(error, at_once);
}

void ScheduleRun::fail(const base::Error& error) {
    end_by(error, false);
    if (!core_.resources().releases_streams()) // what has failed may block it for ever
        give_stream_back(transfer::InternalStreams::State::kStuck);
}

void ScheduleRun::abandon(const base::Error& error) { end_by(error, true); }

void ScheduleRun::for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                                   base::FunctionRef<void(const PostedReceive&)> receive) const {
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        const State& each = states_[i];
        if (!each.complete && each.send && !each.send->done())
            send(*each.send);
        if (!each.complete && each.receive && !each.receive->done())
            receive(*each.receive);
    }
}

bool ScheduleRun::awaits(WorldRank source) const {
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        const Schedule::Step& step = schedule_.steps()[i];
        const bool has_come = i < states_.size() && // else it has not begun
                              (states_[i].complete || (states_[i].receive && states_[i].receive->started()));
        if (step.kind == StepKind::kReceive && !has_come && schedule_.members().world(step.peer) == source)
            return true;
    }
    return false;
}

bool ScheduleRun::note_asked(WorldRank source) {
    if (std::find(asked_.begin(), asked_.end(), source) != asked_.end())
        return false;
    asked_.push_back(source);
    return true;
}

void ScheduleRun::for_each_absent(base::FunctionRef<void(WorldRank rank, uint32_t context)> absent) const {
    for (const AwaitedCall& each : awaited_calls_)
        absent(each.rank, schedule_.comm().collective_context());
}

bool ScheduleRun::awaits_device() const {
    bool some_left = false;
    bool any_awaits = false;
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        const State& each = states_[i];
        some_left |= !each.started;
        if (!each.started || each.complete)
            continue;
        any_awaits |= static_cast<bool>(each.reduced);
        each.for_each_operation(
            [&](const transfer::Operation& operation) { any_awaits |= operation.awaited().has_value(); });
    }
    return some_left && any_awaits;
}

Result<void> ScheduleRun::arm(Alarms& alarms) const {
    if (end_)
        return alarms.set(*end_);
    Result<void> armed;
    for (const State& each : states_) {
        if (!each.started || each.complete)
            continue;
        if (each.reduced)
            GPURUN_TRY(alarms.set(transfer::CompletionPoint::at(each.reduced.get())));
        each.for_each_operation([&](const transfer::Operation& operation) {
            assume_engine_lock();
            if (armed)
                armed = alarms.set_for(operation);
        });
    }
    return armed;
}

} // namespace gpurun::comm
