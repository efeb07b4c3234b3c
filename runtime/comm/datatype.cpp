#include "comm/datatype.hpp"

#include "base/format.hpp"

namespace gpurun::comm {

using base::Result;
using base::Status;

Result<size_t> type_size(int type) {
    const size_t size = size_of_type(type);
    if (size == 0)
        return base::error(Status::kType,
                           "{} is not a datatype; use one of the GPURUN_ types, for example GPURUN_FLOAT", type);
    return size;
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
