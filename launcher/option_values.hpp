// What the values of options are read by: numbers and words. An error says what was expected, and what was written.
#pragma once

#include "base/format.hpp"
#include "platform/job_segment.hpp"

#include <cstdint>
#include <string>

namespace gpurun::launcher {

inline constexpr const char* kSeeHelp = " (gpurun --help lists the options)";

// From 1 to `most`. `what` names the number for people.
base::Result<uint32_t> parse_count(const std::string& text, const std::string& what,
                                   uint32_t most = platform::kMaxRanks);

template <typename T>
struct Choice {
    const char* word;
    T value;
};

template <typename T, size_t N>
base::Result<T> parse_choice(const std::string& text, const char* option, const Choice<T> (&choices)[N]) {
    std::string allowed;
    for (size_t i = 0; i < N; ++i) {
        if (text == choices[i].word)
            return choices[i].value;
        allowed += i == 0 ? "" : i + 1 == N ? " or " : ", ";
        allowed += choices[i].word;
    }
    return base::error(base::Status::kArgument, "{} must be {}, not '{}'", option, allowed, text);
}

} // namespace gpurun::launcher
