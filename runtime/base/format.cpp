#define FMT_HEADER_ONLY
#include "base/format.hpp"

#include <fmt/format.h>

namespace gpurun::base {

std::string format_collected(fmt::string_view text, fmt::format_args arguments) {
    return fmt::vformat(text, arguments);
}

} // namespace gpurun::base
