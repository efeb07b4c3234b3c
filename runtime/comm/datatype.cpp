#include "comm/datatype.hpp"

#include "base/format.hpp"

#include <array>

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {
// BYTE CHAR INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 FLOAT16 BFLOAT16 FLOAT DOUBLE COMPLEX_FLOAT
// COMPLEX_DOUBLE BOOL, from 1.
constexpr std::array<size_t, 18> kSizes = {0, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 1};
} // namespace

Result<size_t> type_size(int type) {
    if (type < 1 || static_cast<size_t>(type) >= kSizes.size())
        return base::error(Status::kType,
                           "{} is not a datatype; use one of the GPURUN_ types, for example GPURUN_FLOAT", type);
    return kSizes[static_cast<size_t>(type)];
}

Result<size_t> message_bytes(size_t count, int type) {
    GPURUN_ASSIGN(const size_t element, type_size(type));
    if (count > (SIZE_MAX >> 1) / element)
        return base::error(Status::kCount,
                           "{} elements of {} bytes are more than an address space holds; count is in "
                           "elements and must not be negative",
                           count, element);
    return count * element;
}

} // namespace gpurun::comm
