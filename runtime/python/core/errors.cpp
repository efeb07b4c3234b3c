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

void bind_errors() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const nb::cast_error&) {
            PyErr_SetString(PyExc_TypeError, "an argument, or an element of one, has a type that the call does not "
                                             "take, or is out of range");
        }
    });
}

} // namespace gpurun::python
