#include "export.hpp"

#include <memory>

namespace gpurun::python {
namespace {

void end_export(dlpack::ManagedVersioned* managed) {
    const nb::gil_scoped_acquire hold;
    Py_DECREF(static_cast<PyObject*>(managed->context));
    delete managed;
}

void drop_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0)
        end_export(static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned")));
}

} // namespace

nb::object export_tensor(nb::handle owner, const dlpack::Tensor& tensor, bool read_only) {
    auto made = std::make_unique<dlpack::ManagedVersioned>(dlpack::ManagedVersioned{
        {dlpack::kMajor, 0}, owner.ptr(), end_export, read_only ? dlpack::kReadOnly : 0, tensor});
    nb::object capsule = nb::steal(PyCapsule_New(made.get(), "dltensor_versioned", drop_capsule));
    if (!capsule.is_valid())
        throw nb::python_error();
    Py_INCREF(owner.ptr());
    (void)made.release();
    return capsule;
}

} // namespace gpurun::python
