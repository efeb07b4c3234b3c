// What the runtime says of its own on stderr: nothing, unless GPURUN_LOG asks for it.
// One line a call, prefixed with the rank, written by one write so that lines of several ranks do not mix.
#pragma once

#include "base/format.hpp"

#include <string_view>

namespace gpurun::base {

enum class LogLevel : int { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

// Set at init, before any other thread of the runtime exists, and when something fails before that.
void configure_log(LogLevel level, int rank);
bool log_enabled(LogLevel level);
// Written whatever the level is.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
    if (log_enabled(level))
        log_line(level, base::format(text, std::forward<Args>(args)...));
}

} // namespace gpurun::base
