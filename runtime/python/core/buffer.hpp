/*
 * A buffer of a message: memory of any library, as the C API takes it.
 *
 * A Buffer keeps its owner's memory alive, by the protocol that described it. It is destroyed with the GIL held.
 */
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

#include <cstddef>

namespace gpurun::python {

enum class Access { kRead, kWrite };
enum class Layout { kContiguous, kTensor }; // kTensor: any strides, and as DLPack describes it

class Buffer {
  public:
    Buffer() = default;
    /* `role` names the argument in errors. `stream` is the caller's, as the method got it: DLPack's producer orders
     * what it has enqueued with it. Raises TypeError or BufferError, which say what to do. */
    Buffer(nb::handle object, Access access, const char* role, nb::handle stream, Layout layout = Layout::kContiguous);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer() { release(); }

    void* data() const { return data_; }
    std::size_t count() const { return count_; }
    gpurun_datatype type() const { return type_; }
    std::size_t bytes() const { return count_ * element_; }
    /* The order domain of a call that names none: the library's current stream of the device, or the thread. */
    gpurun_stream current() const { return current_; }
    /* Of a Layout::kTensor. */
    const dlpack::Tensor& tensor() const { return managed_ != nullptr ? managed_->tensor : versioned_->tensor; }

  private:
    bool from_exchange(nb::handle object, Access access, const char* role, nb::handle stream);
    bool from_dlpack(nb::handle object, Access access, const char* role, nb::handle stream);
    bool from_cuda_interface(nb::handle object, Access access, const char* role);
    bool from_protocol(nb::handle object, Access access, const char* role);
    void take(const dlpack::Tensor& tensor, nb::handle object, const char* role);
    void release();

    void* data_ = nullptr;
    std::size_t count_ = 0;
    std::size_t element_ = 1;
    gpurun_datatype type_ = GPURUN_BYTE;
    gpurun_stream current_ = GPURUN_HOST;
    Layout layout_ = Layout::kContiguous;

    PyObject* owner_ = nullptr; // one of these four keeps the memory
    Py_buffer* view_ = nullptr;
    dlpack::Managed* managed_ = nullptr;
    dlpack::ManagedVersioned* versioned_ = nullptr;
};

} // namespace gpurun::python
