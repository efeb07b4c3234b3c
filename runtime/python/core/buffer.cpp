#include "buffer.hpp"

#include "dtype.hpp"
#include "stream.hpp"

#include <cstdlib>
#include <utility>

namespace gpurun::python {
namespace {

/* An interned name; made once, and never freed. */
PyObject* name(const char* text) { return PyUnicode_InternFromString(text); }

[[noreturn]] void refuse(PyObject* kind, const char* role, nb::handle object, const char* what) {
    PyErr_Format(kind, "%s: %s (it is a %U)", role, what, nb::inst_name(object).ptr());
    throw nb::python_error();
}

constexpr const char* kReadOnlyText = "the memory is read-only, and the call writes it; pass a copy, for example "
                                      "numpy.array(x)";
constexpr const char* kStrided = "the memory is not contiguous; pass a contiguous copy: numpy.ascontiguousarray(x), "
                                 "x.contiguous()";
constexpr const char* kNoType = "there is no datatype for its elements; send them as bytes: x.view('u1'), "
                                "x.view(torch.uint8)";

bool contiguous(const dlpack::Tensor& tensor) {
    if (tensor.strides == nullptr)
        return true;
    std::int64_t expected = 1;
    for (std::int32_t axis = tensor.ndim; axis-- > 0;) {
        if (tensor.shape[axis] == 0)
            return true;
        if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected)
            return false;
        expected *= tensor.shape[axis];
    }
    return true;
}

const dlpack::Exchange* exchange_of(nb::handle object) {
    static PyObject* const names[] = {name("__dlpack_c_exchange_api__"), name("__c_dlpack_exchange_api__")};
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
    for (PyObject* attribute : names) {
        const nb::object capsule = nb::steal(PyObject_GetAttr(type, attribute));
        if (!capsule.is_valid()) {
            PyErr_Clear();
            continue;
        }
        const auto* table =
            static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        if (table == nullptr)
            PyErr_Clear();
        while (table != nullptr && table->version.major != dlpack::kMajor)
            table = table->older;
        if (table != nullptr)
            return table;
    }
    return nullptr;
}

} // namespace

/* By the other constructor, so that what it has taken is released if it raises. */
Buffer::Buffer(nb::handle object, Access access, const char* role, nb::handle stream, Layout layout) : Buffer() {
    layout_ = layout;
    if (layout == Layout::kTensor) {
        if (!from_exchange(object, access, role, stream) && !from_dlpack(object, access, role, stream))
            refuse(PyExc_TypeError, role, object, "not a tensor; pass one that has DLPack's __dlpack__");
        return;
    }
    const bool found = PyObject_CheckBuffer(object.ptr()) != 0
                           ? from_protocol(object, access, role)
                           : from_exchange(object, access, role, stream) || from_dlpack(object, access, role, stream) ||
                                 from_cuda_interface(object, access, role);
    if (!found)
        refuse(PyExc_TypeError, role, object,
               "not a buffer; pass an array or a tensor (DLPack, __cuda_array_interface__ or the buffer protocol), or "
               "use the *_object methods");
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(element_, other.element_);
    std::swap(type_, other.type_);
    std::swap(current_, other.current_);
    std::swap(layout_, other.layout_);
    std::swap(owner_, other.owner_);
    std::swap(view_, other.view_);
    std::swap(managed_, other.managed_);
    std::swap(versioned_, other.versioned_);
    return *this;
}

void Buffer::release() {
    Py_CLEAR(owner_);
    if (view_ != nullptr) {
        PyBuffer_Release(view_);
        delete std::exchange(view_, nullptr);
    }
    if (managed_ != nullptr && managed_->deleter != nullptr)
        managed_->deleter(managed_);
    if (versioned_ != nullptr && versioned_->deleter != nullptr)
        versioned_->deleter(versioned_);
    managed_ = nullptr;
    versioned_ = nullptr;
}

bool Buffer::from_protocol(nb::handle object, Access access, const char* role) {
    auto* view = new Py_buffer;
    if (PyObject_GetBuffer(object.ptr(), view, PyBUF_FULL_RO) != 0) {
        delete view;
        PyErr_Clear();
        refuse(PyExc_TypeError, role, object, kNoType); // NumPy: a type that the buffer protocol has no letter for
    }
    view_ = view;
    if (access == Access::kWrite && view->readonly != 0)
        refuse(PyExc_BufferError, role, object, kReadOnlyText);
    if (PyBuffer_IsContiguous(view, 'C') == 0)
        refuse(PyExc_BufferError, role, object, kStrided);
    element_ = static_cast<std::size_t>(view->itemsize);
    type_ = datatype_of_format(view->format, element_);
    if (type_ == 0)
        refuse(PyExc_TypeError, role, object, kNoType);
    data_ = view->buf;
    count_ = static_cast<std::size_t>(view->len) / element_;
    return true;
}

void Buffer::take(const dlpack::Tensor& tensor, nb::handle object, const char* role) {
    if (layout_ == Layout::kContiguous && !contiguous(tensor))
        refuse(PyExc_BufferError, role, object, kStrided);
    type_ = datatype(tensor.dtype);
    if (type_ == 0)
        refuse(PyExc_TypeError, role, object, kNoType);
    element_ = tensor.dtype.bits / 8;
    count_ = 1;
    for (std::int32_t axis = 0; axis < tensor.ndim; ++axis)
        count_ *= static_cast<std::size_t>(tensor.shape[axis]);
    data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
    switch (tensor.device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost: break;
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
        refuse_emulated(role);
        current_ = nullptr; // the default stream, unless the library says which is current
        break;
    default: refuse(PyExc_BufferError, role, object, "its device is neither the CPU nor a CUDA device");
    }
}

/* The table orders nothing, so it serves calls in the current stream, and those in host order. */
bool Buffer::from_exchange(nb::handle object, Access access, const char* role, nb::handle stream) {
    const dlpack::Exchange* table = exchange_of(object);
    if (table == nullptr)
        return false;
    dlpack::Tensor tensor;
    if (access == Access::kRead && layout_ == Layout::kContiguous && table->to_tensor != nullptr) {
        if (table->to_tensor(object.ptr(), &tensor) != 0)
            throw nb::python_error();
        owner_ = Py_NewRef(object.ptr());
    } else {
        if (table->to_managed(object.ptr(), &versioned_) != 0)
            throw nb::python_error();
        tensor = versioned_->tensor;
        if (access == Access::kWrite && (versioned_->flags & dlpack::kReadOnly) != 0)
            refuse(PyExc_BufferError, role, object, kReadOnlyText);
    }
    take(tensor, object, role);
    if (tensor.device.type == dlpack::kCuda) {
        void* current = nullptr;
        if (table->current_stream(tensor.device.type, tensor.device.id, &current) != 0)
            throw nb::python_error();
        current_ = static_cast<gpurun_stream>(current);
        if (!stream.is_none() && order_domain(stream, current_) != current_) {
            release();
            return false; // __dlpack__ orders the two
        }
    }
    return true;
}

bool Buffer::from_dlpack(nb::handle object, Access access, const char* role, nb::handle stream) {
    static PyObject* const kDlpack = name("__dlpack__");
    if (PyObject_HasAttr(object.ptr(), kDlpack) == 0)
        return false;
    const nb::object where = nb::handle(object).attr("__dlpack_device__")();
    const int device = nb::cast<int>(where[0]);
    if (device == dlpack::kCuda)
        current_ = current_stream_of(object, nb::cast<int>(where[1]));
    const gpurun_stream current = current_;
    nb::dict arguments;
    if (device == dlpack::kCuda)
        arguments["stream"] = dlpack_stream(order_domain(stream, current));
    nb::object capsule;
    try {
        nb::dict newer = nb::steal<nb::dict>(PyDict_Copy(arguments.ptr()));
        newer["max_version"] = nb::make_tuple(1, 3);
        capsule = object.attr("__dlpack__")(**newer);
    } catch (nb::python_error& error) { // a producer of before DLPack 1.0
        if (!error.matches(PyExc_TypeError))
            throw;
        capsule = object.attr("__dlpack__")(**arguments);
    }
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
        versioned_ = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
        if (access == Access::kWrite && (versioned_->flags & dlpack::kReadOnly) != 0)
            refuse(PyExc_BufferError, role, object, kReadOnlyText);
        take(versioned_->tensor, object, role);
    } else {
        managed_ = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        if (managed_ == nullptr)
            throw nb::python_error();
        PyCapsule_SetName(capsule.ptr(), "used_dltensor");
        take(managed_->tensor, object, role);
    }
    current_ = current;
    return true;
}

bool Buffer::from_cuda_interface(nb::handle object, Access access, const char* role) {
    static PyObject* const kInterface = name("__cuda_array_interface__");
    const nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), kInterface));
    if (!found.is_valid()) {
        PyErr_Clear();
        return false;
    }
    const nb::dict facts = nb::cast<nb::dict>(found);
    refuse_emulated(role);
    const nb::tuple data = nb::cast<nb::tuple>(facts["data"]);
    if (access == Access::kWrite && nb::cast<bool>(data[1]))
        refuse(PyExc_BufferError, role, object, kReadOnlyText);
    if (facts.contains("strides") && !facts["strides"].is_none())
        refuse(PyExc_BufferError, role, object, kStrided);
    const char* typestr = nb::borrow<nb::str>(facts["typestr"]).c_str();
    element_ = std::strtoull(typestr + (*typestr == '\0' ? 0 : 2), nullptr, 10);
    type_ = datatype_of_typestr(typestr, element_);
    if (type_ == 0)
        refuse(PyExc_TypeError, role, object, kNoType);
    count_ = 1;
    for (const nb::handle extent : nb::cast<nb::tuple>(facts["shape"]))
        count_ *= nb::cast<std::size_t>(extent);
    data_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
    const bool tells = facts.contains("stream") && !facts["stream"].is_none();
    current_ = tells ? order_domain(facts["stream"], nullptr) : nullptr;
    owner_ = Py_NewRef(object.ptr());
    return true;
}

} // namespace gpurun::python
