// Requests that are part of a graph, from their start to their end.
#include "comm/requests.hpp"

#include <optional>

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {

bool is_captured(const Request& request) {
    return request.active && request.under_way() && request.task.operand.captured();
}

} // namespace

// What they put goes by one operation, behind which what they receive may begin.
void Requests::start_captured(std::span<Request* const> requests) {
    std::optional<device::Event> start;
    device::Stream stream; // that it is in
    launch_captured(requests);
    for (Request* const each : requests) {
        if (!is_captured(*each) || !each->receive || each->receive->error() != nullptr)
            continue;
        const device::Stream in = each->task.operand.stream;
        if (!start || stream != in) {
            auto marked = core_.resources().pools.captures.mark(in);
            if (!marked) {
                messages_.fail(*each->receive, std::move(marked).error());
                continue;
            }
            start = *marked;
            stream = in;
        }
        each->receive->op().set_captured_start(*start);
    }
}

// If that fails, so do they.
void Requests::launch_captured(std::span<Request* const> requests) {
    auto launched = core_.resources().captured_exchange.launch();
    if (launched)
        return;
    for (Request* const each : requests) {
        if (!is_captured(*each))
            continue;
        if (each->receive)
            messages_.fail(*each->receive, launched.error());
        else if (!each->send->error())
            each->send->error() = launched.error();
    }
}

// A captured send may find no room before other graphs have ended. Then the call that starts it waits: only the thread
// that captures may add to the graph, so no other can enqueue the send later.
void Requests::await_room(EngineLock& lock, std::span<Request* const> requests) {
    for (Request* const each : requests) {
        if (!is_captured(*each) || each->send == nullptr || each->enqueued())
            continue;
        const Background::Attendance attendance(background_);
        const uint64_t names[] = {each->name};
        const WaitReason reason{.kind = WaitReason::Kind::kRequests, .into_stream = true, .requests = names};
        auto waited = waiter_.wait(
            lock, reason, [&] { return each->enqueued(); },
            [&] {
                assume_engine_lock();
                return arm(*each);
            });
        if (!waited)
            each->send->fail(std::move(waited).error());
    }
    launch_captured(requests);
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
