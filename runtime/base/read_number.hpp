// Numbers and sizes of settings. kSetting: what is allowed.
#pragma once

#include "base/format.hpp"
#include "base/status.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpurun::base {

template <typename T>
Result<void> read_number(const std::string& text, T low, T high, T& target) {
    T parsed{};
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, parsed);
    if (failed != std::errc{} || stop != end || parsed < low || parsed > high)
        return error(Status::kSetting, "must be a whole number from {} to {}", low, high);
    target = parsed;
    return {};
}

// "4096", "64K", "4M", "1G": powers of 1024.
inline Result<void> read_bytes(const std::string& text, size_t low, size_t high, size_t& target) {
    std::string_view digits = text;
    unsigned shift = 0;
    if (!digits.empty())
        switch (digits.back()) {
        case 'K': shift = 10; break;
        case 'M': shift = 20; break;
        case 'G': shift = 30; break;
        default: break;
        }
    if (shift != 0)
        digits.remove_suffix(1);
    size_t parsed = 0;
    if (!read_number<size_t>(std::string(digits), 0, SIZE_MAX >> 31, parsed) || (parsed << shift) < low ||
        (parsed << shift) > high)
        return error(Status::kSetting, "must be a size from {} to {} bytes; K, M and G may follow the number", low,
                     high);
    target = parsed << shift;
    return {};
}

} // namespace gpurun::base
