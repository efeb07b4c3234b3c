// DLPack's struct, for tests that lend tensors, in C and C++.
#pragma once

#include <stdint.h>

// Of dlpack.h.
struct DLTensor {
    void* data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
};
