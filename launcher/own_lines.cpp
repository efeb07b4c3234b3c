#include "own_lines.hpp"

namespace gpurun::launcher {

std::string as_own_lines(std::string_view text) {
    std::string lines;
    do {
        const size_t end = text.find('\n');
        lines += "gpurun: ";
        lines += text.substr(0, end);
        lines += '\n';
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    } while (!text.empty());
    return lines;
}

} // namespace gpurun::launcher
