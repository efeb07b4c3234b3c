/*
 * Order domains, as Python names them.
 */
#pragma once

#include "python.hpp"

namespace gpurun::python {

/* What `stream=` means: None: `current`; gpurun.HOST; a Stream; an object with __cuda_stream__, cuda_stream (PyTorch)
 * or ptr (CuPy); or a handle as an int. Raises TypeError. */
gpurun_stream order_domain(nb::handle stream, gpurun_stream current);

/* The gpurun.Stream that it is of, if a call has named that; else no object. */
nb::object owner_of(gpurun_stream stream);

/* The current stream of the library that an object on a CUDA device comes from, where it is known to have one. */
gpurun_stream current_stream_of(nb::handle object, int device);

/* What DLPack's __dlpack__ takes as `stream`: -1 for host order, in which the library itself waits. */
nb::object dlpack_stream(gpurun_stream stream);

/* Raises BufferError if the rank's device is emulated: it cannot read memory of a CUDA device. */
void refuse_emulated(const char* role);

} // namespace gpurun::python
