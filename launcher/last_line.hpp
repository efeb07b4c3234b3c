// The last line that somebody has printed, to be shown once more: when a rank fails, it often says why.
#pragma once

#include <string>
#include <string_view>

namespace gpurun::launcher {

class LastLine {
  public:
    static constexpr size_t kLongest = 300; // bytes

    void feed(std::string_view text);
    // Of the last line that is not blank: its end if it is long, without what could disturb a terminal. "" if there
    // is none.
    std::string text() const;

  private:
    std::string kept_; // the end of the stream
};

} // namespace gpurun::launcher
