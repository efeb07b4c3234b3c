#include "line_buffer.hpp"

namespace gpurun::launcher {

void LineBuffer::feed(std::string_view chunk, const Pass& pass) {
    const size_t last_end = chunk.rfind('\n');
    if (last_end != std::string_view::npos) {
        finish(pass);
        pass(chunk.substr(0, last_end + 1));
        chunk.remove_prefix(last_end + 1);
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
