/*
 * Joining the job and leaving it.
 */
#include "collective.hpp"
#include "completer.hpp"

namespace gpurun::python {
namespace {

void init() {
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = gpurun_init();
    }
    check(status, "init");
}

void finalize() {
    refuse_in_callback("finalize");
    if (is_in_call_apart())
        raise(GPURUN_ERR_REQUEST, "finalize",
              "a probe, accept() or connect() that was interrupted still waits; end the process without finalize()");
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        if (gpurun_finalized() == 0) // not in the child of a rank, which has none of its threads
            stop_completers();
        status = gpurun_finalize();
    }
    check(status, "finalize");
}

struct Device {
    gpurun_device_info info = {};
};

Device device() {
    Device found;
    found.info.size = sizeof found.info;
    check(gpurun_device(&found.info), "device");
    return found;
}

void bind_device(nb::module_& module) {
    nb::class_<Device>(module, "Device", "The rank's device.")
        .def_prop_ro("emulated", [](const Device& d) { return d.info.kind == GPURUN_DEVICE_EMULATED; })
        .def_prop_ro(
            "ordinal", [](const Device& d) { return d.info.ordinal; }, "Its number, for torch.cuda.set_device().")
        .def_prop_ro("memory_bytes", [](const Device& d) { return d.info.memory_bytes; })
        .def_prop_ro("name", [](const Device& d) { return nb::str(d.info.name); })
        .def_prop_ro("uuid", [](const Device& d) { return nb::str(d.info.uuid); })
        .def("__repr__",
             [](const Device& d) { return nb::str("<gpurun.Device {} {!r}>").format(d.info.ordinal, d.info.name); });
    module.def("device", &device, "The device that this rank has.");
}

void bind_constants(nb::module_& module) {
    const std::pair<const char*, gpurun_op> ops[] = {{"SUM", GPURUN_SUM},   {"PROD", GPURUN_PROD}, {"MIN", GPURUN_MIN},
                                                     {"MAX", GPURUN_MAX},   {"LAND", GPURUN_LAND}, {"LOR", GPURUN_LOR},
                                                     {"LXOR", GPURUN_LXOR}, {"BAND", GPURUN_BAND}, {"BOR", GPURUN_BOR},
                                                     {"BXOR", GPURUN_BXOR}, {"AVG", GPURUN_AVG}};
    for (const auto& [name, op] : ops)
        module.attr(name) = nb::int_(op.id);
    module.attr("ANY_SOURCE") = GPURUN_ANY_SOURCE;
    module.attr("ANY_TAG") = GPURUN_ANY_TAG;
    module.attr("PROC_NULL") = GPURUN_PROC_NULL;
    module.attr("ALL_RANKS") = GPURUN_ALL_RANKS;
    module.attr("SPLIT_NODE") = static_cast<int>(GPURUN_SPLIT_NODE);
    module.attr("SPLIT_GPU") = static_cast<int>(GPURUN_SPLIT_GPU);
    module.attr("SPLIT_NUMA_NODE") = static_cast<int>(GPURUN_SPLIT_NUMA_NODE);
    nb::class_<InPlace>(module, "InPlace", "The type of gpurun.IN_PLACE.").def("__repr__", [](const InPlace&) {
        return "gpurun.IN_PLACE";
    });
    module.attr("IN_PLACE") = nb::cast(InPlace());
}

} // namespace

void bind_job(nb::module_& module) {
    bind_constants(module);
    bind_device(module);
    module.def("init", &init);
    module.def("finalize", &finalize);
    module.def("stop_waiting", [] {
        const nb::gil_scoped_release free;
        stop_completers();
    });
    module.def("refuse_in_callback", &refuse_in_callback, "function"_a);
    module.def("initialized", [] { return gpurun_initialized() != 0; });
    module.def("finalized", [] { return gpurun_finalized() != 0; });
    module.def(
        "abort", [](int code) { gpurun_abort(code); }, "code"_a = 1);
    module.def("wtime", &gpurun_wtime);
    module.def("errors_return", [] { check(gpurun_errors_set(GPURUN_ERRORS_RETURN, nullptr), "errors_return"); });
    module.def("version", [] {
        int major = 0;
        int minor = 0;
        int patch = 0;
        gpurun_version(&major, &minor, &patch);
        return nb::make_tuple(major, minor, patch);
    });
}

} // namespace gpurun::python
