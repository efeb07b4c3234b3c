/*
 * The datatypes of other libraries, as the C API has them.
 */
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

#include <cstddef>

namespace gpurun::python {

/* 'i' signed, 'u' unsigned, 'f' floating point, 'c' complex, 'b' bool, 'E' bfloat16; 0 where there is none. */
gpurun_datatype datatype(char kind, std::size_t bytes);

gpurun_datatype datatype(dlpack::DataType type);

/* Of a format of the buffer protocol (struct's), and the size of an element. */
gpurun_datatype datatype_of_format(const char* format, std::size_t bytes);

/* Of an array interface: "<f4". */
gpurun_datatype datatype_of_typestr(const char* typestr, std::size_t bytes);

} // namespace gpurun::python
