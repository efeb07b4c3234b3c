// Completing requests: waiting for some of several, and handing their messages' ends to an order domain.
#include "comm/engine.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;

bool Engine::can_complete(const Request& request, const Order& order) const {
    return order.on_stream ? request.enqueued() : request.done();
}

Result<void> Engine::look_up(Completion& several) {
    several.requests.assign(several.names.size(), nullptr);
    several.outcomes.resize(several.names.size());
    for (Outcome& outcome : several.outcomes)
        outcome.completed = false;
    for (size_t i = 0; i < several.names.size(); ++i) {
        if (several.names[i] == 0)
            continue;
        several.requests[i] = request_of(several.names[i]);
        if (several.requests[i] == nullptr)
            return no_request(several.names[i]);
    }
    return {};
}

// Whether the request is still to become part of a graph. If its capture has ended without it, it ends in an error.
bool Engine::in_capture(Request& request) {
    if (!request.active || !request.under_way() || !request.operand.captured)
        return false;
    auto captured = context_.device.is_captured(request.operand.stream);
    if (captured && *captured)
        return true;
    if (request.receive)
        request.receive->incoming.miss_capture();
    return false;
}

// A request belongs to a graph, or it does not, from its start to its end.
Result<void> Engine::check_same_capture(std::span<Request* const> requests, const Order& order) {
    for (Request* request : requests) {
        if (request == nullptr || !request->active || !request->under_way() || in_capture(*request) == order.captured)
            continue;
        return order.captured
                   ? base::error(
                         base::Status::kUnsupported,
                         "the request was not started under this capture, and cannot be completed into a graph: "
                         "wait for it before the capture begins, or on another stream")
                   : base::error(base::Status::kUnsupported,
                                 "the request was started under capture: it is complete once it has been waited for "
                                 "on a stream of the same capture");
    }
    return {};
}

Result<bool> Engine::complete(Completion& several, const Order& order, Need need, bool may_wait) {
    Lock lock(mutex_);
    GPURUN_TRY(look_up(several));
    GPURUN_TRY(check_same_capture(several.requests, order));
    end_row();
    const std::span<Request* const> requests(several.requests);
    size_t first_open = 0; // with kAll
    std::optional<uint64_t> seen;
    const auto open = [](const Request* request) { return request != nullptr && request->active; };
    const auto ready = [&](const Request* request) { return can_complete(*request, order); };
    const auto met = [&] {
        if (seen == changes_)
            return false; // nothing has changed since the last look
        seen = changes_;
        if (need == Need::kAll) {
            while (first_open < requests.size() && (!open(requests[first_open]) || ready(requests[first_open])))
                ++first_open;
            return first_open == requests.size();
        }
        bool any_open = false;
        for (const Request* request : requests) {
            if (open(request) && ready(request))
                return true;
            any_open |= open(request);
        }
        return !any_open;
    };
    std::optional<Attendance> attendance; // of a call that does not find all it wants
    if (!met()) {
        attendance.emplace(*this);
        const auto awaited = [&] { return need == Need::kAll ? requests.subspan(first_open, 1) : requests; };
        if (may_wait) {
            const Awaiting what{.kind = Awaiting::Kind::kRequests,
                                .any = need != Need::kAll,
                                .into_stream = order.on_stream,
                                .requests = requests};
            GPURUN_TRY(wait(lock, what, met, [&] { return arm(awaited()); }));
        } else {
            (void)progress();
            if (!met())
                return false;
        }
    }
    GPURUN_TRY(complete_each(several, order, need));
    return true;
}

Result<void> Engine::complete_each(Completion& several, const Order& order, Need need) {
    context_.mails.begin_joins();
    if (order.on_stream && need != Need::kOne)
        expect_joins(several, order);
    for (size_t i = 0; i < several.requests.size(); ++i) {
        Request* request = several.requests[i];
        if (request == nullptr || !request->active || !can_complete(*request, order))
            continue;
        GPURUN_TRY(finish(*request, order, several.outcomes[i]));
        if (need == Need::kOne)
            break;
    }
    return {};
}

// Several receives that share a kernel are awaited at once where the stream is to wait for all of them.
void Engine::expect_joins(const Completion& several, const Order& order) {
    for (const Request* request : several.requests)
        if (request != nullptr && request->active && request->receive && can_complete(*request, order))
            context_.mails.expect_join(request->receive->incoming.launch());
}

Result<void> Engine::finish(Request& request, const Order& order, Outcome& outcome) {
    if (order.on_stream && request.send)
        GPURUN_TRY(request.send->join(order.stream));
    if (order.on_stream && request.receive)
        GPURUN_TRY(request.receive->incoming.join(order.stream));
    outcome.completed = true;
    outcome.cancelled = request.cancelled;
    outcome.type = request.type;
    outcome.room = request.operand.bytes;
    outcome.gone = !request.persistent;
    outcome.truncates = (request.receive && !request.cancelled) || request.came_at_once;
    outcome.error.reset();
    outcome.arrived =
        request.kind == Task::Kind::kReceive && request.peer == kProcNull ? Arrived{} : Arrived{kAnySource, kAnyTag, 0};
    if (request.came_at_once)
        outcome.arrived = *std::exchange(request.came_at_once, std::nullopt);
    if (request.send && request.send->error())
        outcome.error = std::move(request.send->error());
    if (outcome.truncates && request.receive) {
        if (request.receive->incoming.error())
            outcome.error = std::move(request.receive->incoming.error());
        outcome.arrived.source = request.receive->source;
        outcome.arrived.tag = request.receive->envelope.tag;
        outcome.arrived.bytes = request.receive->envelope.bytes;
    }
    deactivate(request);
    if (outcome.gone)
        requests_.release(request);
    return {};
}

Result<void> Engine::arm(std::span<Request* const> requests) {
    for (const Request* request : requests) {
        if (request == nullptr || !request->active)
            continue;
        alarm_missing_ |= request->send && request->send->waits_for_graphs();
        if (const auto awaited = request->awaited())
            GPURUN_TRY(set_alarm(*awaited));
    }
    return {};
}

} // namespace gpurun::comm
