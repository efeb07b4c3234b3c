// The basic types, by the numbers of gpurun_datatype, and the byte length of a count of them.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpurun::comm {

// BYTE CHAR INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 FLOAT16 BFLOAT16 FLOAT DOUBLE COMPLEX_FLOAT
// COMPLEX_DOUBLE BOOL, from 1; 0 is none.
constexpr std::array<uint8_t, 18> kTypeSizes = {0, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 1};
// 0 if `type` is none.
constexpr size_t size_of_type(int type) {
    return static_cast<unsigned>(type) < kTypeSizes.size() ? kTypeSizes[static_cast<unsigned>(type)] : 0;
}

constexpr size_t kMostBytes = SIZE_MAX >> 1;

// Whether there can be a message of so many elements of `size` bytes.
inline bool is_message(size_t count, size_t size, size_t& ret_bytes) {
    return size != 0 && !__builtin_mul_overflow(count, size, &ret_bytes) && ret_bytes <= kMostBytes;
}

// kType if `type` is none.
base::Result<size_t> type_size(int type);
// Why there is no message of so many elements: kType, or kCount if they are more than kMostBytes.
base::Error no_such_message(size_t count, int type);
// kType, or kCount.
base::Result<size_t> message_bytes(size_t count, int type);

} // namespace gpurun::comm
