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

base::Error no_such_message(size_t count, int type) {
    auto element = type_size(type);
    if (!element)
        return std::move(element).error();
    return base::error(Status::kCount,
                       "{} elements of {} bytes are more than an address space holds; count is in elements and must "
                       "not be negative",
                       count, *element);
}

Result<size_t> message_bytes(size_t count, int type) {
    size_t bytes = 0;
    if (!is_message(count, size_of_type(type), bytes))
        return no_such_message(count, type);
    return bytes;
}

} // namespace gpurun::comm
