/*
 * Groups of calls. What their blocking calls use stays until the group ends, in the thread's own list.
 */
#include "perform.hpp"

namespace gpurun::python {
namespace {

thread_local int depth = 0;
struct KeptInGroup {
    gpurun_stream stream;
    std::unique_ptr<Kept> kept;
};
thread_local std::vector<KeptInGroup> kept_until_end;
thread_local std::vector<OperationPtr> dropped_in_group;

void begin() {
    check(gpurun_group_begin(), "group");
    ++depth;
}

/* What the group has is started also if its body raised: the other ranks expect it. */
void end(nb::handle raised) {
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = gpurun_group_end();
    }
    if (--depth == 0) {
        for (KeptInGroup& each : std::exchange(kept_until_end, {}))
            keep_until_passed(each.stream, std::move(each.kept));
        for (OperationPtr& each : std::exchange(dropped_in_group, {}))
            const Request dropped_now(std::move(each));
    }
    if (raised.is_none())
        check(status, "group");
}

struct Group {};

} // namespace

bool in_group() { return depth > 0; }

void keep_until_group_end(gpurun_stream stream, std::unique_ptr<Kept> kept) {
    kept_until_end.push_back({stream, std::move(kept)});
}

void keep_until_group_end(OperationPtr dropped) { dropped_in_group.push_back(std::move(dropped)); }

void bind_group_calls(nb::module_& module) {
    nb::class_<Group>(module, "group",
                      "`with gpurun.group():` starts the calls of its body together, at its end, and completes the "
                      "blocking ones.\n\n"
                      "None of them waits for another, so ranks that send to each other before they receive do not "
                      "deadlock. A\nStatus that a call has returned is filled at the end.")
        .def(nb::init<>())
        .def("__enter__",
             [](nb::handle self) {
                 begin();
                 return nb::borrow(self);
             })
        .def("__exit__", [](const Group&, const nb::args& why) { end(why[0]); });
}

} // namespace gpurun::python
