// What stands before each line of a rank if that was asked for: the time, and "[rank] " or "[rank host] ".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpurun::launcher {

struct TagStyle {
    bool rank = false;
    bool time = false;
    bool colour = false;   // of the rank, by escape sequences of terminals
    std::string host = ""; // that it runs on; "": not printed
};

class LineTag {
  public:
    LineTag() = default;
    LineTag(uint32_t rank, const TagStyle& style);

    size_t columns() const { return columns_; } // that it takes of each line

    explicit operator bool() const { return time_ || !rank_.empty(); }
    // Appends `text` to `target`, with the tag before each line that begins in it. The time is that of now.
    void mark(std::string_view text, bool begins_line, std::string& target) const;

  private:
    bool time_ = false;
    std::string rank_; // as printed
    size_t columns_ = 0;
};

} // namespace gpurun::launcher
