// Requests that are part of a graph, from their start to their end.
#include "comm/requests.hpp"

#include <algorithm>
#include <optional>

namespace gpurun::comm {

using base::Result;
using base::Status;

// A captured send may find no room before other graphs have ended. Then the call that starts it waits: only the thread
// that captures may add to the graph, so no other can enqueue the send later.
void Requests::await_room(EngineLock& lock, Request& request) {
    if (request.send == nullptr || request.enqueued())
        return;
    const Background::Attendance attendance(background_);
    const uint64_t names[] = {request.name};
    const WaitReason reason{.kind = WaitReason::Kind::kRequests, .into_stream = true, .requests = names};
    auto waited = waiter_.wait(
        lock, reason, [&] { return request.enqueued(); },
        [&] {
            assume_engine_lock();
            return arm(request);
        });
    if (!waited)
        request.send->fail(std::move(waited).error());
}

// What they put goes by one operation, behind which what they receive may begin. If that fails, so does each.
void Requests::enqueue_captured(EngineLock& lock, std::span<Request* const> requests) {
    const auto is_captured = [](const Request* each) {
        return each->active && each->under_way() && each->task.operand.captured();
    };
    if (std::none_of(requests.begin(), requests.end(), is_captured))
        return;
    for (Request* const each : requests)
        if (is_captured(each))
            await_room(lock, *each);
    auto launched = core_.resources().captured_exchange.launch();
    std::optional<device::Event> start;
    device::Stream stream; // that it is in
    for (Request* const each : requests) {
        if (!is_captured(each))
            continue;
        const device::Stream in = each->task.operand.stream;
        transfer::Operation& of = each->receive ? static_cast<transfer::Operation&>(each->receive->op()) : *each->send;
        if (!launched && !of.error())
            of.error() = launched.error();
        if (!launched || !each->receive)
            continue;
        if (!start || stream != in) {
            auto marked = core_.resources().pools.captures.mark(in);
            if (!marked) {
                of.fail(std::move(marked).error());
                continue;
            }
            start = *marked;
            stream = in;
        }
        each->receive->op().set_captured_start(*start);
    }
}

// 0 if it is not captured, or its capture has failed.
uint64_t Requests::capture_of(device::Stream stream) {
    auto captured = core_.device().is_captured(stream);
    if (!captured || !*captured)
        return 0;
    auto number = core_.device().graphs()->capture_number(stream);
    return number ? *number : 0;
}

// Whether the request is still to become part of a graph. If its capture has ended without it, it ends in an error.
bool Requests::is_in_capture(Request& request) {
    if (!request.active || !request.under_way() || !request.task.operand.captured())
        return false;
    if (request.capture != 0 && capture_of(request.task.operand.stream) == request.capture)
        return true;
    if (request.receive)
        request.receive->op().miss_capture();
    return false;
}

// To the capture that it was started under, if any.
Result<void> Requests::check_same_capture(Request& request, const Order& order) {
    if (!request.active || !request.under_way())
        return {};
    if (is_in_capture(request) ? order.captured() && capture_of(order.stream) == request.capture : !order.captured())
        return {};
    return order.captured()
               ? base::error(Status::kUnsupported,
                             "the request was not started under this capture, and cannot be completed into a graph: "
                             "wait for it before the capture begins, or on another stream")
               : base::error(Status::kUnsupported,
                             "the request was started under capture: it is complete once it has been waited for on a "
                             "stream of the same capture");
}

} // namespace gpurun::comm
