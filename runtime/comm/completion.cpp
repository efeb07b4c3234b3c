// Completing requests: waiting for some of several, and handing their messages' ends to an order domain.
#include "comm/engine.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;

bool Engine::can_complete(const Request& request, const Order& order) const {
    return order.on_stream ? request.enqueued() : request.done();
}

Result<bool> Engine::complete(std::span<Request* const> requests, const Order& order, Need need, bool may_wait,
                              std::span<Outcome> outcomes, std::vector<size_t>& completed) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    completed.clear();
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
    if (may_wait) {
        const auto awaited = [&] { return need == Need::kAll ? requests.subspan(first_open, 1) : requests; };
        GPURUN_TRY(wait(lock, met, [&] { return arm(awaited()); }));
    } else if (!met()) {
        (void)progress();
        if (!met())
            return false;
    }
    GPURUN_TRY(complete_each(requests, order, need, outcomes, completed));
    return true;
}

Result<void> Engine::complete_each(std::span<Request* const> requests, const Order& order, Need need,
                                   std::span<Outcome> outcomes, std::vector<size_t>& completed) {
    for (size_t i = 0; i < requests.size(); ++i) {
        Request* request = requests[i];
        if (request == nullptr || !request->active || !can_complete(*request, order))
            continue;
        GPURUN_TRY(finish(*request, order, outcomes[i]));
        completed.push_back(i);
        if (need == Need::kOne)
            break;
    }
    return {};
}

Result<void> Engine::finish(Request& request, const Order& order, Outcome& outcome) {
    if (order.on_stream && request.send)
        GPURUN_TRY(request.send->join(order.stream));
    if (order.on_stream && request.receive)
        GPURUN_TRY(request.receive->incoming.join(order.stream));
    outcome = Outcome{};
    outcome.cancelled = request.cancelled;
    if (request.send)
        outcome.error = std::move(request.send->error());
    if (request.receive && !request.cancelled) {
        outcome.error = std::move(request.receive->incoming.error());
        outcome.arrived = Arrived{request.receive->source, request.receive->envelope.tag,
                                  static_cast<size_t>(request.receive->envelope.bytes)};
    }
    if (request.kind == Request::Kind::kReceive && request.peer == kProcNull)
        outcome.arrived = Arrived{};
    deactivate(request);
    return {};
}

Result<void> Engine::arm(std::span<Request* const> requests) {
    for (const Request* request : requests) {
        if (request == nullptr || !request->active)
            continue;
        if (const auto awaited = request->awaited())
            GPURUN_TRY(set_alarm(*awaited));
    }
    return {};
}

} // namespace gpurun::comm
