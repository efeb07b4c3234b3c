#include "platform/process_state.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace gpurun::platform {

namespace {

constexpr size_t kLongestCommand = 256;

// "" if it ends meanwhile: reading then fails, at which a stream's iterator would throw.
std::string read(int pid, const char* name) {
    std::ifstream file(base::format("/proc/{}/{}", pid, name));
    std::string text;
    std::getline(file, text, '\0');
    return file.bad() ? std::string() : text;
}

} // namespace

std::optional<ProcessStat> process_stat(int pid) {
    const std::string text = read(pid, "stat");
    const size_t name_end = text.rfind(')'); // the name, in parentheses, may hold anything
    ProcessStat stat;
    if (name_end == std::string::npos ||
        std::sscanf(text.c_str() + name_end, ") %c %d", &stat.letter, &stat.parent) != 2)
        return std::nullopt;
    return stat;
}

std::string command_line(int pid) {
    std::ifstream file(base::format("/proc/{}/cmdline", pid));
    std::string text;
    for (std::string word; text.size() < kLongestCommand && std::getline(file, word, '\0');) {
        if (!text.empty())
            text += ' ';
        text += word;
    }
    return text.substr(0, kLongestCommand);
}

ProcessState process_state(int pid) {
    ProcessState state;
    const auto stat = process_stat(pid);
    if (!stat)
        return state;
    state.letter = stat->letter;
    const std::string inside = read(pid, "wchan");
    const bool is_name = std::all_of(inside.begin(), inside.end(), [](unsigned char each) {
        return each == '_' || (each < 0x80 && std::isalnum(each) != 0) || each == '.';
    });
    if (is_name && inside != "0")
        state.inside = inside;
    return state;
}

std::string describe(const ProcessState& state) {
    const auto sleeps = [&](const char* how) {
        return state.inside.empty() ? std::string(how) : base::format("{} in {}", how, state.inside);
    };
    switch (state.letter) {
    case 'R': return "runs";
    case 'S': return sleeps("sleeps");
    case 'D': return sleeps("sleeps, uninterruptibly,");
    case 'T': return "is stopped";
    case 't': return "is stopped by a debugger";
    case 'Z':
    case 'X': return "has ended";
    default: return "is in an unknown state";
    }
}

} // namespace gpurun::platform
