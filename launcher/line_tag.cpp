#include "line_tag.hpp"

#include "base/format.hpp"
#include "line_end.hpp"
#include "platform/clock.hpp"

#include <array>

namespace gpurun::launcher {

namespace {

// Neighbours differ, and none is red, which would look like an error.
constexpr std::array kColours = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};

} // namespace

LineTag::LineTag(uint32_t rank, const TagStyle& style) : time_(style.time) {
    if (time_)
        columns_ = std::string_view("2026-11-21T10:20:31.123 ").size();
    if (!style.rank)
        return;
    const std::string text = style.host.empty() ? std::to_string(rank) : base::format("{} {}", rank, style.host);
    rank_ = base::format("[{}] ", text);
    columns_ += rank_.size();
    if (style.colour)
        rank_ = base::format("\033[{}m[{}]\033[0m ", kColours[rank % kColours.size()], text);
}

void LineTag::mark(std::string_view text, bool begins_line, std::string& target) const {
    const std::string tag = (time_ ? platform::local_time() + " " : "") + rank_;
    while (!text.empty()) {
        if (begins_line)
            target += tag;
        target += take_line(text);
        begins_line = true;
    }
}

} // namespace gpurun::launcher
