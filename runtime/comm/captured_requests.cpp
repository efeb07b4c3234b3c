// Requests that are part of a graph, from their start to their end.
#include "comm/captured_starts.hpp"
#include "comm/requests.hpp"

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {

bool is_captured(const Request& request) { return request.task.operand.captured() && request.task.peer != kProcNull; }
bool is_captured_receive(const Request& request) {
    return is_captured(request) && request.task.kind == Task::Kind::kReceive;
}

// They may count as sent by now: their completion tells.
void fail_sends(std::span<Request* const> requests, const base::Error& error) {
    for (Request* const each : requests)
        if (is_captured(*each) && each->send != nullptr && !each->send->error())
            each->send->error() = error;
}

} // namespace

Result<void> Requests::mark_starts(std::span<Request* const> requests) {
    CapturedStarts starts(core_.resources());
    for (Request* const each : requests)
        if (is_captured_receive(*each) && each->receive && each->receive->error() == nullptr) {
            GPURUN_ASSIGN(const device::Event start, starts.in(each->task.operand.stream));
            each->receive->op().set_captured_start(start);
        }
    return {};
}

// A captured send may find no room before other graphs have ended. Then the call that starts it waits: only the thread
// that captures may add to the graph, so no other can enqueue the send later. If what they put cannot be enqueued, they
// have failed.
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
    if (auto launched = core_.resources().captured_exchange.launch(); !launched)
        fail_sends(requests, launched.error());
}

void Requests::enqueue_captured(EngineLock& lock, std::span<Request* const> requests) {
    if (auto marked = mark_starts(requests); !marked) {
        fail_sends(requests, marked.error());
        for (Request* const each : requests)
            if (is_captured_receive(*each) && each->receive && each->receive->error() == nullptr)
                messages_.fail(*each->receive, marked.error());
    }
    await_room(lock, requests);
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
