// Streams and events of the rank's device.
#include "api/call.hpp"
#include "base/format.hpp"

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;

struct InStream {
    Runtime* runtime;
    device::Stream stream;
};

Result<InStream> enter(gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const device::Stream in, device_stream(*found, stream));
    return InStream{found, in};
}

// Also one that is captured: what is enqueued becomes part of the graph.
Result<InStream> enter_any(gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(*found, stream));
    return InStream{found, checked.stream};
}

Result<void> create_stream(gpurun_stream* ret_stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_stream, "ret_stream"));
    GPURUN_ASSIGN(const device::Stream created, found->device().create_stream());
    found->given_streams().insert(created);
    *ret_stream = created.native;
    return {};
}

base::Error not_given(device::Stream stream) {
    return base::error(Status::kStream, "{} is not a stream of gpurun_stream_create(), or it was destroyed before",
                       stream.address());
}

base::Error not_given(device::Event event) {
    return base::error(Status::kEvent, "{} is not an event of gpurun_event_create(), or it was destroyed before",
                       event.address());
}

Result<void> destroy_stream(gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (!found->given_streams().contains(device::Stream(stream))) // not to be followed, either
        return not_given(device::Stream(stream));
    GPURUN_ASSIGN(const device::Stream destroyed, device_stream(*found, stream));
    if (!found->given_streams().erase(destroyed))
        return not_given(destroyed);
    return found->device().destroy_stream(destroyed);
}

// A stream may have messages of several jobs, of which each knows its own: all of them are asked. The first one waits,
// and what is behind it has nothing left to wait for. Background threads move the messages of the others meanwhile.
template <typename Wait>
Result<void> in_all_jobs(Runtime& runtime, const Wait& wait) {
    Result<void> first;
    static_cast<void>(runtime.for_each_engine([&](comm::Engine& each) {
        auto waited = wait(each);
        if (!waited && first)
            first = std::move(waited);
        return Result<void>();
    }));
    return first;
}

Result<void> synchronize(gpurun_stream stream) {
    GPURUN_ASSIGN(const InStream in, enter(stream));
    return in_all_jobs(*in.runtime, [&](comm::Engine& each) { return each.device_waits().synchronize(in.stream); });
}

Result<void> query(gpurun_stream stream, int* ret_done) {
    GPURUN_ASSIGN(const InStream in, enter(stream));
    GPURUN_TRY(check_output(ret_done, "ret_done"));
    GPURUN_ASSIGN(const bool done, in.runtime->device().query(in.stream));
    *ret_done = done ? 1 : 0;
    return {};
}

Result<void> await_event(gpurun_stream stream, gpurun_event event) {
    GPURUN_ASSIGN(const InStream in, enter_any(stream));
    return in.runtime->device().await_event(in.stream, device::Event(event));
}

Result<void> launch_host(gpurun_stream stream, void (*function)(void*), void* argument) {
    GPURUN_ASSIGN(const InStream in, enter_any(stream));
    if (function == nullptr)
        return base::error(Status::kArgument, "function is NULL: pass the function that the stream is to call");
    return in.runtime->device().call_host(in.stream, function, argument);
}

Result<void> create_event(gpurun_event* ret_event) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_event, "ret_event"));
    GPURUN_ASSIGN(const device::Event created, found->device().create_event());
    found->given_events().insert(created);
    *ret_event = created.native;
    return {};
}

Result<void> destroy_event(gpurun_event event) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    const device::Event destroyed(event);
    if (!found->given_events().erase(destroyed))
        return not_given(destroyed);
    return found->device().destroy_event(destroyed);
}

Result<void> record(gpurun_event event, gpurun_stream stream) {
    GPURUN_ASSIGN(const InStream in, enter_any(stream));
    return in.runtime->device().record(device::Event(event), in.stream);
}

Result<void> synchronize_event(gpurun_event event) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(found->device().query(device::Event(event))); // not an event: says so
    return in_all_jobs(*found,
                       [&](comm::Engine& each) { return each.device_waits().synchronize(device::Event(event)); });
}

Result<void> query_event(gpurun_event event, int* ret_done) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_done, "ret_done"));
    GPURUN_ASSIGN(const bool done, found->device().query(device::Event(event)));
    *ret_done = done ? 1 : 0;
    return {};
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_stream_create(gpurun_stream* ret_stream) {
    const api::CallScope call(__func__);
    return api::report(api::create_stream(ret_stream));
}

gpurun_status gpurun_stream_destroy(gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::destroy_stream(stream));
}

gpurun_status gpurun_stream_synchronize(gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::synchronize(stream));
}

gpurun_status gpurun_stream_query(gpurun_stream stream, int* ret_done) {
    const api::CallScope call(__func__);
    return api::report(api::query(stream, ret_done));
}

gpurun_status gpurun_stream_wait_event(gpurun_stream stream, gpurun_event event) {
    const api::CallScope call(__func__);
    return api::report(api::await_event(stream, event));
}

gpurun_status gpurun_launch_host(gpurun_stream stream, void (*function)(void* argument), void* argument) {
    const api::CallScope call(__func__);
    return api::report(api::launch_host(stream, function, argument));
}

gpurun_status gpurun_event_create(gpurun_event* ret_event) {
    const api::CallScope call(__func__);
    return api::report(api::create_event(ret_event));
}

gpurun_status gpurun_event_destroy(gpurun_event event) {
    const api::CallScope call(__func__);
    return api::report(api::destroy_event(event));
}

gpurun_status gpurun_event_record(gpurun_event event, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::record(event, stream));
}

gpurun_status gpurun_event_synchronize(gpurun_event event) {
    const api::CallScope call(__func__);
    return api::report(api::synchronize_event(event));
}

gpurun_status gpurun_event_query(gpurun_event event, int* ret_done) {
    const api::CallScope call(__func__);
    return api::report(api::query_event(event, ret_done));
}

} // extern "C"
