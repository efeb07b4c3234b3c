#include "summary.hpp"

#include "base/format.hpp"

namespace gpurun::launcher {

std::string describe_device(const Device& device) {
    if (!device.parent.empty())
        return base::format("{} of GPU {}", device.uuid, device.bus_id);
    if (!device.bus_id.empty())
        return "GPU " + device.bus_id;
    const size_t begin = device.setting.find(':') + 1; // emulated:3/4
    return "emulated device " + device.setting.substr(begin, device.setting.find('/') - begin);
}

std::string worth_repeating(uint32_t rank, const std::string& last_words, const OutputOptions& output) {
    const bool was_shown = output.folder.empty() && output.shown.has(rank);
    return was_shown && last_words.starts_with("gpurun: ") ? "" : last_words;
}

std::string summarize(const FailedRank& failed, Others others) {
    std::string line = base::format("rank {} (pid {}, {}) {}", failed.rank, failed.pid, failed.device, failed.what);
    if (others != Others::kNone)
        line += others == Others::kEnded ? "; the other ranks were ended" : "; the other ranks go on";
    if (!failed.last_words.empty())
        line += "; the last line of its stderr: " + failed.last_words;
    return line;
}

} // namespace gpurun::launcher
