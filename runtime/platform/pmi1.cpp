#include "platform/pmi1.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

constexpr size_t kLongestLine = 4096;
constexpr int64_t kAnswerNs = 30'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;

// The value of `key` in "cmd=get_result rc=0 value=x". Values have no spaces.
std::string_view field(std::string_view line, std::string_view key) {
    while (!line.empty()) {
        const std::string_view word = line.substr(0, line.find(' '));
        if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
            return word.substr(key.size() + 1);
        line.remove_prefix(std::min(word.size() + 1, line.size()));
    }
    return {};
}

base::Error gone() {
    return base::error(
        Status::kLauncher,
        "PMI_FD, by which the launcher of this process is asked, is closed: MPI_Finalize(), or a program "
        "between, has closed it. Call gpurun_init() before that; or set GPURUN_JOB to a name that all "
        "ranks share, or GPURUN_SIZE=1 if each is to be a job of its own");
}

class Launcher {
  public:
    explicit Launcher(int fd) : fd_(fd) {}

    // The line that answers `question`, which begins with "cmd=`answer`".
    Result<std::string> ask(const std::string& question, std::string_view answer) const {
        GPURUN_TRY(say(question + "\n"));
        GPURUN_ASSIGN(std::string line, hear(question));
        if (field(line, "cmd") != answer)
            return base::error(Status::kLauncher,
                               "the launcher of this process answers '{}' to '{}', which is not PMI-1: set GPURUN_JOB "
                               "to a name that all ranks share, and GPURUN_RANK and GPURUN_SIZE",
                               line, question);
        return line;
    }

  private:
    Result<void> say(std::string_view text) const {
        while (!text.empty()) {
            const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR)
                continue;
            if (sent <= 0)
                return gone();
            text.remove_prefix(static_cast<size_t>(sent));
        }
        return {};
    }

    // Byte by byte: what follows the line may be for an MPI library.
    Result<std::string> hear(const std::string& question) const {
        const int64_t end_ns = now_ns() + kAnswerNs;
        std::string line;
        while (line.size() < kLongestLine) {
            const int64_t left_ns = end_ns - now_ns();
            pollfd readable{fd_, POLLIN, 0};
            if (left_ns <= 0 || ::poll(&readable, 1, static_cast<int>(left_ns / kNsPerMs) + 1) == 0)
                return base::error(Status::kLauncher,
                                   "the launcher of this process has not answered '{}' on PMI_FD for 30 s: set "
                                   "GPURUN_JOB to a name that all ranks share",
                                   question);
            char next = 0;
            const ssize_t got = ::recv(fd_, &next, 1, MSG_DONTWAIT);
            if (got < 0 && (errno == EINTR || errno == EAGAIN))
                continue;
            if (got <= 0)
                return gone();
            if (next == '\n')
                return line;
            line += next;
        }
        return line; // which is no answer
    }

    int fd_;
};

} // namespace

bool may_be_pmi1(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

Result<Pmi1Job> ask_pmi1(int fd, bool leaves) {
    if (!may_be_pmi1(fd))
        return gone();
    const Launcher launcher(fd);
    GPURUN_TRY(launcher.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"));
    GPURUN_ASSIGN(const std::string space, launcher.ask("cmd=get_my_kvsname", "my_kvsname"));
    Pmi1Job job;
    job.name = field(space, "kvsname");
    GPURUN_ASSIGN(const std::string mapping,
                  launcher.ask("cmd=get kvsname=" + job.name + " key=PMI_process_mapping", "get_result"));
    job.mapping = field(mapping, "value");
    if (leaves)
        GPURUN_TRY(launcher.ask("cmd=finalize", "finalize_ack"));
    return job;
}

bool is_one_node(std::string_view mapping) {
    std::optional<int> node;
    for (size_t at = mapping.find('(', 1); at != std::string_view::npos; at = mapping.find('(', at + 1)) {
        int first = 0;
        int nodes = 0;
        const char* const end = mapping.data() + mapping.size();
        const auto [comma, failed] = std::from_chars(mapping.data() + at + 1, end, first);
        if (failed != std::errc() || comma == end || *comma != ',' ||
            std::from_chars(comma + 1, end, nodes).ec != std::errc())
            return true;
        if (nodes != 1 || (node && *node != first))
            return false;
        node = first;
    }
    return true;
}

} // namespace gpurun::platform
