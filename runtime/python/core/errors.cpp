/*
 * Statuses of the library become exceptions: gpurun/_errors.py has the classes.
 */
#include "python.hpp"

namespace gpurun::python {

void raise(gpurun_status status, const char* function) { raise(status, function, gpurun_error_detail()); }

void raise(gpurun_status status, const char* function, const char* detail) {
    const nb::object exception =
        nb::module_::import_("gpurun._errors")
            .attr("of_status")(static_cast<int>(status), gpurun_status_string(status), function, detail);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw nb::python_error();
}

} // namespace gpurun::python
