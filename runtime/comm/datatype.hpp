// The byte length of a count of elements (base/datatype.hpp).
#pragma once

#include "base/datatype.hpp"
#include "base/status.hpp"

#include <cstddef>
#include <cstdint>

namespace gpurun::comm {

using base::size_of_type;

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
