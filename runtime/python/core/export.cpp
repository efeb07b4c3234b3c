#include "export.hpp"

#include <memory>

namespace gpurun::python {
namespace {

template <typename Managed>
constexpr const char* kName = nullptr;
template <>
constexpr const char* kName<dlpack::ManagedVersioned> = "dltensor_versioned";
template <>
constexpr const char* kName<dlpack::Managed> = "dltensor"; // before DLPack 1.0

template <typename Managed>
void end_export(Managed* managed) {
    const nb::gil_scoped_acquire hold;
    Py_DECREF(static_cast<PyObject*>(managed->context));
    delete managed;
}

template <typename Managed>
void drop_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kName<Managed>) != 0)
        end_export(static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>)));
}

template <typename Managed>
nb::object in_capsule(nb::handle owner, std::unique_ptr<Managed> made) {
    nb::object capsule = nb::steal(PyCapsule_New(made.get(), kName<Managed>, drop_capsule<Managed>));
    if (!capsule.is_valid())
        throw nb::python_error();
    Py_INCREF(owner.ptr());
    (void)made.release();
    return capsule;
}

bool knows_versions(const nb::kwargs& wishes) {
    if (!wishes.contains("max_version"))
        return false;
    const nb::object most = wishes["max_version"];
    return !most.is_none() && nb::cast<long>(most[0]) >= dlpack::kMajor;
}

} // namespace

nb::object export_tensor(nb::handle owner, const dlpack::Tensor& tensor, bool read_only, const nb::kwargs& wishes) {
    if (wishes.contains("copy") && wishes["copy"].is(nb::handle(Py_True)))
        throw nb::buffer_error("gpurun does not copy: copy what from_dlpack() returns without copy=True");
    if (knows_versions(wishes))
        return in_capsule(owner, std::make_unique<dlpack::ManagedVersioned>(
                                     dlpack::ManagedVersioned{{dlpack::kMajor, 0},
                                                              owner.ptr(),
                                                              end_export<dlpack::ManagedVersioned>,
                                                              read_only ? dlpack::kReadOnly : 0,
                                                              tensor}));
    if (read_only)
        throw nb::buffer_error("the memory is read-only, which DLPack says from 1.0 on: a newer NumPy (2.1) or PyTorch "
                               "reads it; or borrow a loan that may be written");
    return in_capsule(
        owner, std::make_unique<dlpack::Managed>(dlpack::Managed{tensor, owner.ptr(), end_export<dlpack::Managed>}));
}

} // namespace gpurun::python
