/*
 * One way to make a call of the library, in each of its forms: now, started, or prepared.
 */
#pragma once

#include "completer.hpp"
#include "request.hpp"
#include "stream.hpp"
#include "stream_keeper.hpp"
#include "waiting.hpp"

#include <utility>

namespace gpurun::python {

enum class Form { kNow, kStart, kPrepare };

/* Whether a group of calls is open in this thread, and what its blocking calls need until it ends. */
bool in_group();
void keep_until_group_end(gpurun_stream stream, std::unique_ptr<Kept> kept);
/* The same of a request that was dropped. Behind that it completes by itself, as any other. */
void keep_until_group_end(OperationPtr dropped);

/* A request for what `start(gpurun_request*)` starts. */
template <typename Start>
OperationPtr started(const char* name, gpurun_stream stream, std::unique_ptr<Kept> kept, Start start) {
    auto operation = std::make_shared<Operation>();
    operation->name = name;
    operation->stream = stream;
    operation->kept = std::move(kept);
    if (nb::object owner = owner_of(stream); owner.is_valid()) {
        if (operation->kept == nullptr)
            operation->kept = std::make_unique<Kept>();
        operation->kept->stream = std::move(owner);
    }
    check(start(&operation->request), name);
    operation->handle = operation->request;
    return operation;
}

template <typename Now>
void call_now(const char* name, Now now) {
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = now();
    }
    check(status, name);
}

/* `now()`, `start(request)` and `prepare(request)` make the three calls, with what `kept` has. A blocking call in host
 * order is one that is started and waited for, so that ^C ends it. */
template <typename Now, typename Start, typename Prepare>
nb::object perform(Form form, const char* name, gpurun_stream stream, std::unique_ptr<Kept> kept, Now now, Start start,
                   Prepare prepare) {
    if (form == Form::kStart)
        return nb::cast(Request(started(name, stream, std::move(kept), start)));
    if (form == Form::kPrepare) {
        OperationPtr operation = started(name, stream, std::move(kept), prepare);
        operation->persistent = true;
        operation->done = true; // it is not active
        return nb::cast(Request(std::move(operation)));
    }
    if (in_group()) {
        check(now(), name);
        keep_until_group_end(stream, std::move(kept));
    } else if (stream == GPURUN_HOST && in_main_thread()) {
        wait_for(started(name, stream, std::move(kept), start), stream);
    } else {
        call_now(name, now);
        keep_until_passed(stream, std::move(kept));
    }
    return nb::none();
}

/* Calls now, with a status, and returns it. */
template <typename Now, typename Start>
nb::object receive_now(const char* name, gpurun_stream order, std::unique_ptr<Kept> kept, Now now, Start start) {
    if (in_group()) {
        kept->status = nb::cast(Status());
        nb::object status = kept->status;
        check(now(&nb::cast<Status&>(status).value), name);
        keep_until_group_end(order, std::move(kept));
        return status;
    }
    if (order == GPURUN_HOST && in_main_thread()) {
        const OperationPtr operation = started(name, order, std::move(kept), start);
        wait_for(operation, order);
        return nb::cast(Status{operation->status});
    }
    Status status;
    call_now(name, [&] { return now(&status.value); });
    keep_until_passed(order, std::move(kept));
    return nb::cast(status);
}

} // namespace gpurun::python
