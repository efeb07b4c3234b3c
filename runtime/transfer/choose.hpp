// Which path a message takes. The target decides, once it knows both buffers; the reason travels back to the source.
#pragma once

#include "transfer/link.hpp"
#include "transfer/operand.hpp"

namespace gpurun::transfer {

Choice choose_path(Context& context, Link& link, const Record& request, const Operand& target);

} // namespace gpurun::transfer
