#include "comm/schedule_run.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using transfer::Ending;
using transfer::Operand;
using StepKind = Schedule::Step::Kind;
using StepId = Schedule::StepId;

void ScheduleRun::start(const Operand& order, Ending ending, std::optional<StepId> received) {
    order_ = order;
    received_ = received;
    if (states_.size() < schedule_.steps().size())
        states_.resize(schedule_.steps().size());
    const Group& group = schedule_.members();
    if (failure_.any_lost(group)) {
        fail(failure_.member_died(group));
        return;
    }
    if (order.on_stream() && ending == Ending::kByCompletion) {
        stream_.emplace(core_.resources(), order_);
        if (auto taken = stream_->take(true); !taken)
            fail(taken.error());
    }
    (void)advance();
}

void ScheduleRun::release() {
    for (State& each : states_) {
        each.started = each.complete = false;
        each.send.reset();
        each.receive.reset();
    }
    complete_ = 0;
    error_.reset();
    take_back_(*this);
}

void ScheduleRun::note_complete(State& state) {
    state.started = state.complete = true;
    ++complete_;
}

bool ScheduleRun::can_start(const Schedule::Step& step) const {
    const auto before = schedule_.before(step);
    return std::all_of(before.begin(), before.end(), [&](StepId each) { return states_[each].complete; });
}

// Whether some send need not wait for the receive, so that both may be under way in one stream.
bool ScheduleRun::runs_beside_send(StepId receive) const {
    return std::any_of(schedule_.steps().begin(), schedule_.steps().end(), [&](const Schedule::Step& each) {
        const auto before = schedule_.before(each);
        return each.kind == StepKind::kSend && std::find(before.begin(), before.end(), receive) == before.end();
    });
}

// A step's buffer in the schedule's order.
Operand ScheduleRun::operand_of(const Schedule::Step& step) const {
    Operand operand = order_;
    operand.address = step.buffer.address;
    operand.bytes = step.buffer.bytes;
    operand.where = step.buffer.where;
    if (step.bytes_of)
        operand.bytes = std::min(operand.bytes, bytes_of(*step.bytes_of));
    return operand;
}

Result<void> ScheduleRun::start_step(StepId id) {
    const Schedule::Step& step = schedule_.steps()[id];
    State& state = states_[id];
    state.started = true;
    if (step.kind == StepKind::kLocal)
        return step.work(order_);
    const Communicator& comm = schedule_.comm();
    state.operand = operand_of(step);
    const int tag = schedule_.tag(step);
    if (step.kind == StepKind::kSend) {
        // In a graph the stream waits for what is sent once all that can go at the same time has been enqueued.
        const Ending ending = order_.captured() ? Ending::kByCompletion : Ending::kInStream;
        state.send.emplace(core_.resources(), core_.peer(comm.group().world(step.peer)), state.operand,
                           transfer::Envelope{comm.collective_context(), tag, state.operand.bytes},
                           transfer::Send::Mode{.ending = ending, .urges = true});
        messages_.start(*state.send);
    } else {
        state.receive.emplace(core_.resources(), state.home, state.operand,
                              Pattern::of(comm.group(), comm.collective_context(), step.peer.value, tag),
                              ReceiveMode{.ending = runs_beside_send(id) ? Ending::kTogether : Ending::kInStream});
        messages_.start(*state.receive);
    }
    return {};
}

Result<bool> ScheduleRun::settle_step(State& state) {
    transfer::Operation* const operation = state.operation();
    if (order_.captured() && state.send && operation->enqueued() && !operation->error())
        GPURUN_TRY(operation->complete_into(order_.stream));
    if (!state.is_over())
        return false;
    if (operation != nullptr && operation->error())
        return std::move(*operation->error());
    return true;
}

bool ScheduleRun::advance() {
    const bool moved = advance_steps();
    return look_for_end() || moved;
}

bool ScheduleRun::advance_steps() {
    const size_t steps = schedule_.steps().size();
    const size_t complete_before = complete_;
    for (size_t seen = SIZE_MAX; seen != complete_ && !error_;) {
        seen = complete_;
        Result<void> failed;
        for (StepId i = 0; i < steps && failed; ++i)
            if (!states_[i].started && can_start(schedule_.steps()[i]))
                failed = start_step(i);
        messages_.launch(); // before what depends on these
        for (StepId i = 0; i < steps && failed; ++i) {
            State& state = states_[i];
            if (!state.started || state.complete)
                continue;
            auto settled = settle_step(state);
            if (!settled)
                failed = std::move(settled).error();
            else if (*settled)
                note_complete(state);
        }
        if (!failed)
            fail(failed.error());
    }
    if (error_ && !enqueued())
        end_steps(*error_, false);
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
    if (come && !*come)
        return false;
    if (!come)
        fail(come.error());
    give_stream_back(come ? transfer::InternalStreams::State::kIdle : transfer::InternalStreams::State::kStuck);
    return true;
}

Result<void> ScheduleRun::complete_into(device::Stream stream) {
    CHECK(enqueued());
    if (!end_)
        return {};
    GPURUN_TRY(end_->await(core_.device(), stream));
    // What its messages still need of other ranks, `stream` needs now.
    for (const WorldRank each : schedule_.members().members()) {
        core_.peer(each).awaiting_forward.move(stream_->internal(), stream);
        core_.peer(each).awaiting_backward.move(stream_->internal(), stream);
    }
    give_stream_back(transfer::InternalStreams::State::kWaiting);
    return {};
}

void ScheduleRun::end_steps(const base::Error& error, bool at_once) {
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        State& state = states_[i];
        if (state.complete)
            continue;
        if (state.receive && !state.is_over()) {
            core_.matcher().withdraw(*state.receive);
            (void)state.receive->op();
        }
        transfer::Operation* const operation = state.operation();
        if (operation != nullptr && !operation->done() && at_once)
            operation->abandon(error);
        else if (operation != nullptr && !operation->done() && !operation->error())
            operation->fail(error);
        if (state.is_over())
            note_complete(state);
    }
}

void ScheduleRun::fail(const base::Error& error) {
    if (!error_)
        error_ = error;
    end_steps(error, false);
    if (!core_.resources().releases_streams()) // what has failed may block it for ever
        give_stream_back(transfer::InternalStreams::State::kStuck);
}

void ScheduleRun::abandon(const base::Error& error) {
    if (!error_)
        error_ = error;
    end_steps(error, true);
}

void ScheduleRun::for_each_message(base::FunctionRef<void(const transfer::Send&)> send,
                                   base::FunctionRef<void(const PostedReceive&)> receive) const {
    for (StepId i = 0; i < schedule_.steps().size(); ++i) {
        const State& each = states_[i];
        if (!each.complete && each.send)
            send(*each.send);
        else if (!each.complete && each.receive)
            receive(*each.receive);
    }
}

Result<void> ScheduleRun::arm(Alarms& alarms) const {
    if (end_)
        return alarms.set(*end_);
    for (const State& each : states_)
        if (const transfer::Operation* const operation = each.operation(); each.started && !each.complete && operation)
            GPURUN_TRY(alarms.set_for(*operation));
    return {};
}

} // namespace gpurun::comm
