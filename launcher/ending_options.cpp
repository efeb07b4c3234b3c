#include "ending_options.hpp"

#include "base/format.hpp"
#include "option_reader.hpp"

#include <charconv>
#include <cmath>

namespace gpurun::launcher {

namespace {

constexpr int64_t kMostSeconds = 1'000'000'000; // 31 years

// "5", "0.5": thousandths count.
base::Result<int64_t> parse_seconds(const std::string& text, const char* option, int64_t least_ms) {
    double seconds = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
    const bool number = failed == std::errc{} && stop == end && seconds >= 0 && seconds <= kMostSeconds;
    const int64_t result_ms = number ? static_cast<int64_t>(std::llround(seconds * 1000)) : -1;
    if (result_ms < least_ms)
        return base::error(base::Status::kArgument, "{} must be a number of seconds{}, not '{}'", option,
                           least_ms > 0 ? ", 0.001 or more" : ", 0 or more", text);
    return result_ms;
}

} // namespace

void add_ending_options(OptionReader& reader, EndingWords& words) {
    reader.add_flag("--keep-going", words.keep_going);
    reader.add_option("--grace", words.grace);
    reader.add_option("--timeout", words.timeout);
    reader.add_option("--hang-timeout", words.hang_timeout);
}

base::Result<EndingOptions> understand(const EndingWords& words) {
    EndingOptions options;
    options.keep_going = words.keep_going;
    if (words.grace) {
        GPURUN_ASSIGN(options.grace_ms, parse_seconds(*words.grace, "--grace", 0));
    }
    if (words.timeout) {
        GPURUN_ASSIGN(options.timeout_ms, parse_seconds(*words.timeout, "--timeout", 1));
    }
    if (words.hang_timeout) {
        GPURUN_ASSIGN(options.hang_timeout_ms, parse_seconds(*words.hang_timeout, "--hang-timeout", 1));
    }
    return options;
}

} // namespace gpurun::launcher
