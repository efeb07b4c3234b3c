// Sentences for people: base::format is fmt, header-only (so that a built gpurun needs no libfmt where it runs).
// Not for the message path: it allocates.
#pragma once

#include "base/status.hpp"

#include <fmt/format.h>

namespace gpurun::base {

using fmt::format;

template <typename... Args>
Error error(Status status, fmt::format_string<Args...> text, Args&&... args) {
    return Error{status, fmt::format(text, std::forward<Args>(args)...)};
}

} // namespace gpurun::base
