#include "transfer/operation.hpp"

namespace gpurun::transfer {

using base::Result;
namespace wait_report = platform::wait_report;

// Under the engine lock it has left all lists, so nothing points to it.
Operation::~Operation() {
    GPURUN_ASSERT(phase_ == Phase::kDone || phase_ == Phase::kNew ||
                  (phase_ == Phase::kEnqueued && !end_)); // the last: of a graph
}

void Operation::watch() {
    const bool has_work =
        phase_ == Phase::kEnqueued ? end_.has_value() : phase_ == Phase::kActive && activity() >= Activity::kWaiting;
    if (!has_work)
        resources_.moving.remove(*this);
    else if (!MovingList::has(*this))
        resources_.moving.push_back(*this);
}

void Operation::settle(Result<void> result) {
    if (!result)
        fail(std::move(result).error());
    watch();
}

void Operation::advance() {
    if (phase_ == Phase::kActive)
        settle(advance_protocol());
    if (phase_ == Phase::kEnqueued)
        look_for_end();
}

void Operation::look_for_end() {
    if (!end_)
        return;
    auto come = end_->has_come(device());
    if (!come) {
        settle(std::move(come).error());
        return;
    }
    // While the peer is dying, it may have come by poison. PeerFailure decides once all its edges are poisoned.
    if (*come && (peer_->lost() || !peer_->channel().is_gone())) {
        drained_ = true;
        finish();
    }
}

// ------------------------------------------------------------------------------------------------------ the end

void Operation::end_at(const CompletionPoint& end) {
    if (ends_in_stream()) {
        finish();
        return;
    }
    end_ = end;
    reach(Phase::kEnqueued);
}

Result<void> Operation::end_behind(Fence& fence, Edge edge, const Slot& slot, device::Stream stream) {
    if (!ends_in_stream() && !fence.edges_last()) {
        GPURUN_ASSIGN(const device::Event event, resources_.pools.events.record(stream));
        end_event_ = EventLease(resources_.pools.events, event);
        end_at(CompletionPoint::at(event));
    } else {
        end_at(CompletionPoint::at(fence, edge, slot));
    }
    return {};
}

void Operation::leave_to_completion() {
    resources_.left.push_back(*this);
    reach(Phase::kEnqueued);
}

void Operation::join_stream() {
    if (!ends_by_completion() || operand_.captured() || work_.is_internal())
        return;
    ending_ = Ending::kTogether;
    work_.give_marker_back();
}

void Operation::enqueue_left() {
    if (!is_left())
        return;
    resources_.left.remove(*this);
    phase_ = Phase::kActive;
    settle(enqueue_left_by_protocol(std::nullopt));
}

void Operation::begin_left() {
    auto begun = begin_left_by_protocol();
    if (begun && !*begun)
        return;
    resources_.left.remove(*this);
    settle(begun ? Result<void>() : Result<void>(std::move(begun).error()));
}

Result<void> Operation::end_in_place() {
    if (!ends_by_completion()) {
        finish();
        return {};
    }
    GPURUN_TRY(work_.set_marker());
    end_at(work_.marker_point());
    return {};
}

InternalStreams::State Operation::stream_state() const {
    if (error_ && !resources_.releases_streams())
        return InternalStreams::State::kStuck;
    return drained_ ? InternalStreams::State::kIdle : InternalStreams::State::kWaiting;
}

StreamEnd Operation::stream_end() const {
    if (!end_ || end_->on_event() || !end_->fence->edges_last())
        return {};
    return {&end_->fence->counter(end_->edge, end_->slot), end_->slot.value};
}

void Operation::tell_trace_of_end() {
    if (ends_in_stream() && !drained_)
        trace_.enqueued_only();
    trace_.ended();
}

void Operation::finish() {
    leave_queues();
    resources_.moving.remove(*this);
    resources_.left.remove(*this);
    work_.finish(stream_state(), stream_end());
    on_finish();
    end_event_.reset();
    end_.reset();
    if (trace_.records()) [[unlikely]]
        tell_trace_of_end();
    reach(Phase::kDone);
}

Result<void> Operation::complete_into(device::Stream stream) {
    GPURUN_ASSERT(enqueued());
    if (operand_.captured() && !is_left())
        return complete_captured(stream);
    if (done())
        return {};
    if (is_left()) {
        resources_.left.remove(*this);
        if (auto enqueued = enqueue_left_by_protocol(stream); !enqueued)
            fail(std::move(enqueued).error());
        else if (!done() && !end_)
            finish(); // it is in the stream
        if (!end_)
            return {};
    }
    GPURUN_ASSIGN(const bool over, end_->is_over());
    if (!over) {
        GPURUN_TRY(await_end(*end_, stream));
        trace_.enqueued_only();
    }
    // What the message still needs of its peer, `stream` needs now.
    if (work_.is_internal() && !peer_->lost())
        dependents().move(work_.internal(), stream);
    finish();
    return {};
}

void Operation::miss_capture() {
    capture_missed();
    watch();
}

// --------------------------------------------------------------------------------------------------- failures

void Operation::fail(base::Error error) {
    const bool failed_before = error_.has_value();
    if (!failed_before)
        error_ = std::move(error);
    trace_.failed();
    leave_queues();
    if (phase_ != Phase::kNew)
        give_up();
    if (phase_ == Phase::kEnqueued && !failed_before && ends_by_itself())
        return;
    if (work_.is_internal() && !failed_before && resources_.releases_streams()) {
        if (work_.rejoins()) {
            (void)work_.rejoin(); // a device that fails here has nothing left to copy
        } else if (auto recorded = work_.record_end()) {
            end_event_ = std::move(*recorded);
            end_ = CompletionPoint::at(end_event_.get());
            reach(Phase::kEnqueued);
            watch();
            return;
        }
    }
    if (const auto end = end_of_use(); end && !failed_before) {
        end_ = *end;
        reach(Phase::kEnqueued);
        watch();
        return;
    }
    finish();
}

void Operation::abandon(base::Error error) {
    if (!error_)
        error_ = std::move(error);
    trace_.failed();
    if (phase_ != Phase::kNew)
        give_up();
    if (work_.is_internal() && resources_.releases_streams())
        work_.synchronize();
    finish();
}

void Operation::fail_unless_complete(const base::Error& error) {
    if (done() || error_)
        return;
    if (phase_ == Phase::kEnqueued) {
        auto complete = is_complete_without_peer();
        if (complete && *complete)
            return;
    }
    fail(error);
}

// -------------------------------------------------------------------------------------------------- for people

std::optional<CompletionPoint> Operation::awaited() const { return phase_ == Phase::kEnqueued ? end_ : blocked_on(); }

wait_report::Entry Operation::describe(wait_report::What what) const {
    wait_report::Entry entry;
    entry.what = what;
    entry.bytes = operand_.bytes;
    if (operand_.on_stream())
        entry.flags |= wait_report::kOnStream;
    if (operand_.captured())
        entry.flags |= wait_report::kCaptured;
    const auto& point = phase_ == Phase::kEnqueued && !is_left() ? end_ : blocked_on();
    if (!point)
        return entry;
    entry.state = point->on_event() ? wait_report::State::kDevice : wait_report::State::kEdge;
    if (point->on_event())
        return entry;
    entry.slot = point->slot.number();
    entry.all = point->slot.value;
    entry.done = platform::reached_value(point->fence->counter(point->edge, point->slot).load());
    if (point->edge == Edge::kBackward)
        entry.flags |= wait_report::kBackward;
    const Edge own = what == wait_report::What::kSend ? Edge::kForward : Edge::kBackward;
    if (point->edge != own)
        entry.flags |= wait_report::kPeerEdge;
    return entry;
}

} // namespace gpurun::transfer
