/*
 * Memory that other libraries read by DLPack.
 */
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace gpurun::python {

/* What `__dlpack__` returns. It keeps `owner`, which keeps the memory, the shape and the strides. */
nb::object export_tensor(nb::handle owner, const dlpack::Tensor& tensor, bool read_only);

} // namespace gpurun::python
