// The text of a trace, on its way to where it is written, a piece at a time.
#pragma once

#include "base/function_ref.hpp"
#include "base/status.hpp"

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpurun::launcher {

// Whatever it is given is the next piece of the text; an error of its ends everything.
using TraceSink = base::FunctionRef<base::Result<void>(std::string_view)>;

// Microseconds with all digits of the nanoseconds: a double would lose some. REQUIRES: not negative.
struct Micros {
    int64_t ns;
};

class TraceText {
  public:
    explicit TraceText(TraceSink sink) : sink_(sink) {}

    // Texts as they are, numbers in digits, one behind the other.
    template <typename... Parts>
    void add(const Parts&... parts) {
        (put(parts), ...);
    }

    uint64_t bytes() const { return passed_ + buffer_.size(); } // of all pieces

    base::Result<void> pass_on(size_t unless_below = kPieceBytes) {
        if (buffer_.size() < unless_below)
            return {};
        auto passed = sink_(buffer_);
        passed_ += buffer_.size();
        buffer_.clear();
        return passed;
    }

  private:
    static constexpr size_t kPieceBytes = 256 * 1024;
    static constexpr size_t kMostDigits = 24;

    void put(std::string_view text) { buffer_ += text; }
    void put(char character) { buffer_ += character; }
    template <std::integral Number>
    void put(Number number) {
        char digits[kMostDigits];
        buffer_.append(digits, std::to_chars(digits, digits + kMostDigits, number).ptr);
    }
    void put(Micros time) {
        put(time.ns / 1000);
        const auto rest = static_cast<int>(time.ns % 1000);
        const char digits[] = {'.', digit(rest / 100), digit(rest / 10 % 10), digit(rest % 10)};
        buffer_.append(digits, sizeof digits);
    }
    static char digit(int value) { return static_cast<char>('0' + value); }

    TraceSink sink_;
    std::string buffer_;
    uint64_t passed_ = 0;
};

} // namespace gpurun::launcher
