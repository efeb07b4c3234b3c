#include "perform.hpp"
#include "stream.hpp"

namespace gpurun::python {
namespace {

const char* state(const Request& request) {
    const Operation& operation = request.operation();
    return operation.done.load(std::memory_order_acquire)  ? "complete"
           : operation.request.id == 0 && !operation.given ? "complete"
                                                           : "under way";
}

/* Raised by a signal handler, and not by a call of the library. */
bool is_of_signal(const nb::python_error& error) {
    return !error.matches(nb::module_::import_("gpurun._errors").attr("Error"));
}

/* Where a signal ends it, as it does a wait for one: what is not matched is cancelled. */
void wait_for_all(const nb::sequence& requests, nb::handle stream) {
    for (const nb::handle each : requests) {
        try {
            (void)nb::cast<Request&>(each).wait(stream, nb::none());
        } catch (const nb::python_error& error) {
            if (is_of_signal(error))
                for (const nb::handle other : requests)
                    nb::cast<Request&>(other).cancel_quietly();
            throw;
        }
    }
}

nb::str describe(const Status& status) {
    return nb::str("<gpurun.Status source={} tag={} count={} bytes={}{}>")
        .format(status.value.source, status.value.tag, status.value.count, status.value.bytes,
                status.value.cancelled != 0 ? " cancelled" : "");
}

void bind_status(nb::module_& module) {
    nb::class_<Status>(module, "Status", "What a receive or a probe has found out about its message.")
        .def_prop_ro(
            "source", [](const Status& s) { return s.value.source; }, "Its rank in the communicator.")
        .def_prop_ro("tag", [](const Status& s) { return s.value.tag; })
        .def_prop_ro(
            "count", [](const Status& s) { return s.value.count; },
            "Elements of the receive's type; after a probe, bytes.")
        .def_prop_ro(
            "bytes", [](const Status& s) { return s.value.bytes; }, "The message's length.")
        .def_prop_ro("cancelled", [](const Status& s) { return s.value.cancelled != 0; })
        .def("__repr__", &describe);
}

} // namespace

Request::~Request() {
    if (operation_ == nullptr || operation_->request.id == 0 || operation_->given)
        return;
    if (in_group() && gpurun_finalized() == 0) {
        keep_until_group_end(std::move(operation_));
        return;
    }
    if (gpurun_finalized() != 0 || operation_->persistent) {
        const bool may_move = gpurun_finalized() != 0 ? !operation_->done : is_active();
        if (gpurun_finalized() == 0)
            (void)gpurun_request_free(&operation_->request);
        if (may_move)
            keep_for_ever(std::move(operation_));
        return;
    }
    if (completers_are_stopped()) { // Python ends, and a thread could not let go of anything
        keep_for_ever(std::move(operation_));
        return;
    }
    try {
        complete_in_background(operation_);
    } catch (nb::python_error& error) {
        error.discard_as_unraisable("gpurun.Request");
        keep_for_ever(std::move(operation_));
    }
}

/* Of a persistent one. A call that fails says of what: the message, which is over then, or the call itself. */
bool Request::is_active() const {
    int done = operation_->done ? 1 : 0;
    for (int i = 0; i < 2 && done == 0; ++i)
        if (gpurun_test(&operation_->request, GPURUN_HOST, &done, &operation_->status) == GPURUN_OK)
            break;
    operation_->done = done != 0;
    return done == 0;
}

Status Request::wait(nb::handle stream, nb::handle timeout) const {
    if (operation_->request.id == 0 && !operation_->given)
        return Status{operation_->status};
    if (timeout.is_none())
        wait_for(operation_, order_domain(stream, operation_->stream));
    else
        wait_for_at_most(operation_, nb::cast<double>(timeout));
    return Status{operation_->status};
}

nb::object Request::test(nb::handle stream) const {
    const bool complete = (operation_->request.id == 0 && !operation_->given) ||
                          python::test(operation_, order_domain(stream, operation_->stream));
    return complete ? nb::cast(Status{operation_->status}) : nb::none();
}

void Request::cancel() const {
    gpurun_request handle = operation_->handle;
    if (!operation_->done.load(std::memory_order_acquire))
        check(gpurun_cancel(&handle), "Request.cancel");
}

void Request::cancel_quietly() const {
    gpurun_request handle = operation_->handle;
    (void)gpurun_cancel(&handle);
}

void Request::start() const {
    operation_->done = false;
    check(gpurun_start(&operation_->request), "Request.start");
}

void Request::free() const {
    if (!operation_->persistent)
        raise(GPURUN_ERR_REQUEST, "Request.free",
              "it is not persistent: wait() completes it, and a request that is dropped completes by itself");
    if (operation_->request.id != 0 && is_active())
        raise(GPURUN_ERR_REQUEST, "Request.free",
              "it is active, and its message uses its buffers: wait() for it first");
    check(gpurun_request_free(&operation_->request), "Request.free");
    operation_->kept.reset();
}

void bind_requests(nb::module_& module) {
    bind_status(module);
    nb::class_<Request>(module, "Request",
                        "A message or a collective that was started.\n\n"
                        "Its buffers must not be used before it is complete: wait(), test() or `await` completes it. "
                        "`with` waits at the\nend. It keeps its buffers alive.")
        .def("wait", &Request::wait, "stream"_a = nb::none(), "timeout"_a = nb::none(),
             "Complete it into an order domain: that in which it was started, or `stream`.\n\n"
             "With a `timeout`, in seconds, it completes on the host, or raises TimeoutError and goes on.\n"
             "Returns its Status. Raises the error of its message.")
        .def("test", &Request::test, "stream"_a = nb::none(),
             "Complete it if that needs no waiting: its Status, or None if it is not complete yet.")
        .def("cancel", &Request::cancel,
             "Cancel a receive or a loan that is not matched. It is to be waited for all the same; its Status tells.")
        .def("start", &Request::start, "Start a persistent request.")
        .def("free", &Request::free, "Free a persistent request that is not active.")
        .def(
            "add_done_callback",
            [](const Request& request, nb::handle callback) {
                if (request.operation().request.id == 0 && !request.operation().given)
                    nb::borrow(callback)();
                else
                    when_complete(request.pointer(), callback);
            },
            "callback"_a,
            "Call `callback()` once it is complete on the host, in the thread that completes requests. It must not "
            "wait.")
        .def(
            "remove_done_callback",
            [](const Request& request, nb::handle callback) { forget_callback(request.operation(), callback); },
            "callback"_a, "Take back a callback that was added, if it was not called yet.")
        .def_prop_ro(
            "done", [](const Request& request) { return *state(request) == 'c'; },
            "Whether it is known to be complete; test() finds out.")
        .def("__await__",
             [](nb::handle self) { return nb::module_::import_("gpurun._waiting").attr("await_request")(self); })
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__exit__",
             [](const Request& request, const nb::args& why) {
                 if (!why[0].is_none() && !request.operation().persistent && !request.operation().done &&
                     request.operation().request.id != 0)
                     request.cancel_quietly();
                 else
                     (void)request.wait(nb::none(), nb::none());
             })
        .def("__repr__", [](const Request& request) {
            return nb::str("<gpurun.Request of {}, {}>").format(request.operation().name, state(request));
        });
    module.def("waitall", &wait_for_all, "requests"_a, "stream"_a = nb::none(),
               "Complete all requests, each as Request.wait() does.");
}

} // namespace gpurun::python
