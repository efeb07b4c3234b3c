// The basic types, by the numbers of gpurun_datatype, and the byte length of a count of them.
#pragma once

#include "base/status.hpp"

namespace gpurun::comm {

// kType if `type` is none.
base::Result<size_t> type_size(int type);
// kType, or kCount if the product does not fit.
base::Result<size_t> message_bytes(size_t count, int type);

} // namespace gpurun::comm
