/*
 * What every file of the extension includes: Python, nanobind, and the public header of the library.
 *
 * The extension stands on that header alone. It checks and translates arguments, gives the GIL back while the library
 * waits, and keeps buffers alive while messages use them.
 */
#pragma once

#include <nanobind/nanobind.h>

#include <gpurun/gpurun.h>

namespace gpurun::python {
namespace nb = nanobind;
using namespace nb::literals;

/* Raises what gpurun._errors makes of a status; `function` is the method that was called. */
[[noreturn]] void raise(gpurun_status status, const char* function);
[[noreturn]] void raise(gpurun_status status, const char* function, const char* detail);

inline void check(gpurun_status status, const char* function) {
    if (status != GPURUN_OK)
        raise(status, function);
}

/* Bindings, a file each. */
void bind_errors();
void bind_job(nb::module_& module);
void bind_streams(nb::module_& module);
void bind_memory(nb::module_& module);
void bind_requests(nb::module_& module);
void bind_groups(nb::module_& module);
void bind_group_calls(nb::module_& module);
void bind_segments(nb::module_& module);

} // namespace gpurun::python
