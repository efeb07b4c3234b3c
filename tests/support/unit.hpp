// doctest for tests of the runtime's own functions. REQUIRE_OK takes a Result that must be a value; CHECK_STATUS one
// that must be a certain error.
#pragma once

#include "base/status.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <utility>

namespace gpurun::test {

inline constexpr int kOk = static_cast<int>(base::Status::kOk);

template <typename T>
int status_of(const base::Result<T>& result) {
    return result ? kOk : static_cast<int>(result.error().status);
}

template <typename T>
std::string detail_of(const base::Result<T>& result) {
    return result ? std::string("success") : result.error().detail;
}

// The value of a Result that must have one.
template <typename T>
T must(base::Result<T> result) {
    REQUIRE_MESSAGE(static_cast<bool>(result), detail_of(result));
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

} // namespace gpurun::test

#define REQUIRE_OK(expression)                                                                                         \
    do {                                                                                                               \
        const auto& require_ok_result = (expression);                                                                  \
        REQUIRE_MESSAGE(static_cast<bool>(require_ok_result), #expression, ": ",                                       \
                        ::gpurun::test::detail_of(require_ok_result));                                                 \
    } while (0)

#define CHECK_STATUS(expression, expected)                                                                             \
    do {                                                                                                               \
        const auto& check_status_result = (expression);                                                                \
        CHECK_MESSAGE(::gpurun::test::status_of(check_status_result) == static_cast<int>(expected), #expression, ": ", \
                      ::gpurun::test::detail_of(check_status_result));                                                 \
    } while (0)
