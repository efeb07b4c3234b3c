// Cuts a stream of bytes at the ends of its lines (line_end.hpp), so that lines of several ranks do not mix.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace gpurun::launcher {

class LineBuffer {
  public:
    using Pass = std::function<void(std::string_view)>;

    // What comes of a line that is longer is passed without its end: a rank that never ends its line must not fill the
    // memory.
    static constexpr size_t kLongestLine = size_t{1} << 20;

    // Passes all lines that `chunk` completes, and keeps the beginning of the next.
    void feed(std::string_view chunk, const Pass& pass);
    // The stream has ended: passes what is left of it.
    void finish(const Pass& pass);

  private:
    std::string held_; // never contains a line end
};

} // namespace gpurun::launcher
