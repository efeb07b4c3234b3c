/*
 * Memory that other libraries read by DLPack.
 */
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace gpurun::python {

/* What `__dlpack__` returns for its keywords. It keeps `owner`, which keeps the memory, the shape and the strides.
 * Raises BufferError for a copy, and for read-only memory if the library that asks knows no such (DLPack before 1.0).
 */
nb::object export_tensor(nb::handle owner, const dlpack::Tensor& tensor, bool read_only, const nb::kwargs& wishes);

} // namespace gpurun::python
