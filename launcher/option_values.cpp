#include "option_values.hpp"

#include <charconv>

namespace gpurun::launcher {

base::Result<uint32_t> parse_count(const std::string& text, const std::string& what, uint32_t most) {
    int64_t parsed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, parsed);
    if (failed != std::errc{} || stop != end || parsed < 1 || parsed > most)
        return base::error(base::Status::kArgument, "{} must be a whole number from 1 to {}, not '{}'", what, most,
                           text);
    return static_cast<uint32_t>(parsed);
}

} // namespace gpurun::launcher
