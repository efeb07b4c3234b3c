// DLPack's description of a tensor, as its version 1 lays it out (https://dmlc.github.io/dlpack). Programs have it of
// dlpack.h; gpurun.h only declares it.
#pragma once

#include <cstddef>
#include <cstdint>

struct DLDevice {
    int32_t device_type;
    int32_t device_id;
};

struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct DLTensor {
    void* data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t* shape;
    int64_t* strides; // null: compact, row by row
    uint64_t byte_offset;
};
static_assert(sizeof(void*) == 8 && sizeof(DLTensor) == 48 && offsetof(DLTensor, byte_offset) == 40);

namespace gpurun::comm {

constexpr int32_t kDlCpu = 1; // of a device_type
constexpr int32_t kDlCuda = 2;

} // namespace gpurun::comm
