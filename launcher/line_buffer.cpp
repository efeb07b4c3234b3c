#include "line_buffer.hpp"

#include "line_end.hpp"

namespace gpurun::launcher {

void LineBuffer::feed(std::string_view chunk, const Pass& pass) {
    if (const size_t whole = whole_lines(chunk); whole > 0) {
        finish(pass);
        pass(chunk.substr(0, whole));
        chunk.remove_prefix(whole);
    }
    held_ += chunk;
    if (held_.size() >= kLongestLine)
        finish(pass);
}

void LineBuffer::finish(const Pass& pass) {
    if (held_.empty())
        return;
    pass(held_);
    held_.clear();
}

} // namespace gpurun::launcher
