// Requests that are part of a graph, from their start to their end.
#include "comm/requests.hpp"

namespace gpurun::comm {

using base::Result;
using base::Status;

// A captured send may find no room before other graphs have ended. Then the call that starts it waits: only the thread
// that captures may add to the graph, so no other can enqueue the send later.
void Requests::enqueue_captured(EngineLock& lock, Request& request) {
    if (!request.task.operand.captured() || request.send == nullptr || request.enqueued())
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
