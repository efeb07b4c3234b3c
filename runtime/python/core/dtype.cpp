#include "dtype.hpp"

#include <cstring>

namespace gpurun::python {
namespace {

struct Row {
    char kind;
    std::size_t bytes;
    gpurun_datatype type;
};

constexpr Row kRows[] = {
    {'i', 1, GPURUN_INT8},
    {'i', 2, GPURUN_INT16},
    {'i', 4, GPURUN_INT32},
    {'i', 8, GPURUN_INT64},
    {'u', 1, GPURUN_UINT8},
    {'u', 2, GPURUN_UINT16},
    {'u', 4, GPURUN_UINT32},
    {'u', 8, GPURUN_UINT64},
    {'f', 2, GPURUN_FLOAT16},
    {'f', 4, GPURUN_FLOAT},
    {'f', 8, GPURUN_DOUBLE},
    {'c', 8, GPURUN_COMPLEX_FLOAT},
    {'c', 16, GPURUN_COMPLEX_DOUBLE},
    {'b', 1, GPURUN_BOOL},
    {'E', 2, GPURUN_BFLOAT16},
};

char kind_of_format(char letter) {
    if (std::strchr("bhilqn", letter) != nullptr)
        return 'i';
    if (std::strchr("BHILQNc", letter) != nullptr)
        return 'u';
    if (std::strchr("efd", letter) != nullptr)
        return 'f';
    if (std::strchr("FD", letter) != nullptr)
        return 'c';
    return letter == '?' ? 'b' : '\0';
}

} // namespace

gpurun_datatype datatype(char kind, std::size_t bytes) {
    for (const Row& row : kRows)
        if (row.kind == kind && row.bytes == bytes)
            return row.type;
    return static_cast<gpurun_datatype>(0);
}

gpurun_datatype datatype(dlpack::DataType type) {
    if (type.lanes != 1)
        return static_cast<gpurun_datatype>(0);
    switch (type.code) {
    case dlpack::kInt: return datatype('i', type.bits / 8);
    case dlpack::kUInt: return datatype('u', type.bits / 8);
    case dlpack::kFloat: return datatype('f', type.bits / 8);
    case dlpack::kBfloat: return datatype('E', type.bits / 8);
    case dlpack::kComplex: return datatype('c', type.bits / 8);
    case dlpack::kBool: return datatype('b', type.bits / 8);
    default: // floats of 8 bits can be sent, not combined
        return type.bits == 8 ? GPURUN_BYTE : static_cast<gpurun_datatype>(0);
    }
}

gpurun_datatype datatype_of_format(const char* format, std::size_t bytes) {
    if (format == nullptr)
        return GPURUN_UINT8;
    if (std::strchr("@=<", *format) != nullptr || (std::strchr("!>", *format) != nullptr && bytes == 1))
        ++format;
    if (*format == 'Z')
        return datatype('c', bytes);
    return format[0] != '\0' && format[1] == '\0' ? datatype(kind_of_format(*format), bytes)
                                                  : static_cast<gpurun_datatype>(0);
}

gpurun_datatype datatype_of_typestr(const char* typestr, std::size_t bytes) {
    if (std::strlen(typestr) < 3 || (*typestr == '>' && bytes > 1))
        return static_cast<gpurun_datatype>(0);
    return datatype(typestr[1], bytes);
}

} // namespace gpurun::python
