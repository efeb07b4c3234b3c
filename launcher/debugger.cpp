#include "debugger.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"

#include <charconv>
#include <sstream>

namespace gpurun::launcher {

base::Result<Debugger> parse_debugger(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string rank = text.substr(0, colon);
    Debugger debugger;
    const auto [stop, failed] = std::from_chars(rank.data(), rank.data() + rank.size(), debugger.rank);
    std::istringstream words(colon == std::string::npos ? "gdb -q --args" : text.substr(colon + 1));
    for (std::string word; words >> word;)
        debugger.command.push_back(std::move(word));
    if (failed != std::errc{} || stop != rank.data() + rank.size() || debugger.rank >= platform::kMaxJobRanks ||
        debugger.command.empty())
        return base::error(base::Status::kArgument,
                           "{} must be RANK or RANK:COMMAND, such as 1 or '1:cuda-gdb --args', not '{}'", kDebug, text);
    return debugger;
}

} // namespace gpurun::launcher
