#include "platform/process_state.hpp"

#include "base/format.hpp"

#include "platform/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

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
        std::sscanf(text.c_str() + name_end,
                    ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                    &stat.letter, &stat.parent, &stat.started) != 3)
        return std::nullopt;
    return stat;
}

uint64_t started_at(int pid) {
    const auto stat = process_stat(pid);
    return stat ? stat->started : 0;
}

bool has_ended(int pid, uint64_t started) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process && errno == ESRCH)
        return true;
    const uint64_t now = started_at(pid);
    if (started != 0 && now != 0 && now != started)
        return true;
    if (!process) // the system lets nobody watch it
        return ::kill(pid, 0) != 0 && errno == ESRCH;
    pollfd ended{process.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
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
