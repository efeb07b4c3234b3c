/*
 * Meeting another job by a name, as gpurun_comm_accept(3) says.
 *
 * A wait that ^C has ended goes on. If the jobs still meet, the joint job is left at once.
 */
#include "comm.hpp"
#include "completer.hpp"
#include "waiting.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

namespace gpurun::python {
namespace {

using Meet = gpurun_status (*)(const char*, int, gpurun_comm, gpurun_comm*);

struct Meeting { // outlives the call if ^C ends it
    Meet meet;
    std::string name;
    int timeout_ms;
    gpurun_comm comm;
    gpurun_comm met = GPURUN_COMM_NULL;
    std::atomic<bool> one_has_ended{false}; // the call, or the wait for it; the second one sees the first one's result
};

void leave(Meeting& meeting) {
    if (meeting.met.id == 0)
        return;
    (void)stop_those_of(meeting.met);
    (void)gpurun_comm_free(&meeting.met);
}

gpurun_status run(void* state) {
    auto& meeting = *static_cast<Meeting*>(state);
    gpurun_status status = meeting.meet(meeting.name.c_str(), meeting.timeout_ms, meeting.comm, &meeting.met);
    if (status == GPURUN_OK)
        status = complete_those_of(meeting.met);
    if (meeting.one_has_ended.exchange(true))
        leave(meeting);
    return status;
}

int milliseconds(std::optional<double> timeout) {
    if (!timeout)
        return -1;
    if (!(*timeout >= 0))
        throw nb::value_error("timeout is in seconds, and not negative; None waits for ever");
    return static_cast<int>(std::min(std::ceil(*timeout * 1e3), double{INT_MAX}));
}

nb::object meet(const char* function, Meet call, const Comm& comm, std::string name, std::optional<double> timeout) {
    const auto meeting = std::make_shared<Meeting>(call, std::move(name), milliseconds(timeout), comm.handle());
    try {
        check(call_apart(function, run, meeting), function);
    } catch (...) { // its own error, or what a signal handler has raised
        if (meeting->one_has_ended.exchange(true)) {
            const nb::gil_scoped_release free;
            leave(*meeting);
        }
        throw;
    }
    return nb::cast(Comm(meeting->met));
}

} // namespace

void bind_meetings(CommClass& comm) {
    comm.def(
            "accept",
            [](const Comm& c, std::string name, std::optional<double> timeout) {
                return meet("accept", &gpurun_comm_accept, c, std::move(name), timeout);
            },
            "name"_a, "timeout"_a = nb::none(),
            "Meet another job of this user on this machine, which calls connect() with the same name. Returns a\n"
            "communicator of the ranks of both: first those of the job that accepts. free() leaves it.\n\n"
            "All ranks call it, on a communicator of their own job; what rank 0 gives counts.\n"
            "name: 1 to 64 letters, digits, '-', '_', '.'. timeout: seconds; None waits for ever.\n"
            "Raises TimedOutError if no job has connected in time, JobError if the name is taken or cannot be one,\n"
            "UnsupportedError if the ranks are on several nodes, PeerLostError if a rank has died.")
        .def(
            "connect",
            [](const Comm& c, std::string name, std::optional<double> timeout) {
                return meet("connect", &gpurun_comm_connect, c, std::move(name), timeout);
            },
            "name"_a, "timeout"_a = nb::none(),
            "Meet the job that calls accept() with the same name, or the next one that does. The rest is as with\n"
            "accept(); a job cannot connect to itself.");
}

} // namespace gpurun::python
