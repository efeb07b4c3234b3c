// Sentences for people, by fmt. Not for the message path: it allocates.
//
// A file that formats sees how arguments are collected and checked; how they become text is in format.cpp alone, where
// fmt is header-only, so that a built gpurun needs no libfmt where it runs.
#pragma once

#include "base/status.hpp"

#include <fmt/core.h>

#include <string>

namespace gpurun::base {

std::string format_collected(fmt::string_view text, fmt::format_args arguments);

template <typename... Args>
std::string format(fmt::format_string<Args...> text, Args&&... args) {
    return format_collected(text, fmt::make_format_args(args...));
}

template <typename... Args>
Error error(Status status, fmt::format_string<Args...> text, Args&&... args) {
    return Error{status, base::format(text, std::forward<Args>(args)...)};
}

} // namespace gpurun::base
