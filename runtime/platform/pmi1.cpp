#include "platform/pmi1.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"

#include <algorithm>
#include <array>
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
constexpr int kAnswerS = 30;
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr const char* kBarrier = "cmd=barrier_in";
constexpr const char* kShared = "gpurun.meeting";

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

Result<void> say(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return gone();
        text.remove_prefix(static_cast<size_t>(sent));
    }
    return {};
}

// Nothing if there is none in time. Byte by byte: what follows the line may be for an MPI library.
Result<std::optional<std::string>> hear_line(int fd, int timeout_s) {
    const int64_t end_ns = now_ns() + timeout_s * kNsPerS;
    std::string line;
    while (line.size() < kLongestLine) {
        const int64_t left_ns = end_ns - now_ns();
        pollfd readable{fd, POLLIN, 0};
        if (left_ns <= 0 || ::poll(&readable, 1, static_cast<int>(left_ns / kNsPerMs) + 1) == 0)
            return std::optional<std::string>();
        char next = 0;
        const ssize_t got = ::recv(fd, &next, 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return gone();
        if (next == '\n')
            break;
        line += next;
    }
    return std::optional(std::move(line)); // too long: it is no answer
}

} // namespace

bool may_be_pmi1(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

Result<Pmi1Client> Pmi1Client::start(int fd) {
    if (!may_be_pmi1(fd))
        return gone();
    Pmi1Client client(fd);
    GPURUN_TRY(client.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", kAnswerS));
    GPURUN_ASSIGN(const std::string space, client.ask("cmd=get_my_kvsname", "my_kvsname", kAnswerS));
    client.job_ = field(space, "kvsname");
    GPURUN_ASSIGN(const std::string mapping,
                  client.ask("cmd=get kvsname=" + client.job_ + " key=PMI_process_mapping", "get_result", kAnswerS));
    client.mapping_ = field(mapping, "value");
    return client;
}

// The line that answers `question`, which has "cmd=`answer`".
Result<std::string> Pmi1Client::ask(const std::string& question, std::string_view answer, int timeout_s) const {
    GPURUN_TRY(say(fd_, question + "\n"));
    GPURUN_ASSIGN(std::optional<std::string> line, hear_line(fd_, timeout_s));
    if (!line)
        return base::error(Status::kLauncher,
                           "the launcher of this process has not answered '{}' on PMI_FD for {} s: {}", question,
                           timeout_s,
                           question == kBarrier ? "another rank has not come; GPURUN_JOIN_TIMEOUT gives it more time"
                                                : "set GPURUN_JOB to a name that all ranks share");
    if (field(*line, "cmd") != answer)
        return base::error(Status::kLauncher,
                           "the launcher of this process answers '{}' to '{}', which is not PMI-1: set GPURUN_JOB "
                           "to a name that all ranks share, and GPURUN_RANK and GPURUN_SIZE",
                           *line, question);
    return *std::move(line);
}

Result<std::string> Pmi1Client::share(uint32_t rank, const std::string& value, int timeout_s) {
    if (rank == 0)
        GPURUN_TRY(
            ask(base::format("cmd=put kvsname={} key={} value={}", job_, kShared, value), "put_result", kAnswerS));
    GPURUN_TRY(ask(kBarrier, "barrier_out", timeout_s));
    GPURUN_ASSIGN(const std::string found,
                  ask(base::format("cmd=get kvsname={} key={}", job_, kShared), "get_result", kAnswerS));
    return std::string(field(found, "value"));
}

Result<void> Pmi1Client::leave() {
    GPURUN_TRY(ask("cmd=finalize", "finalize_ack", kAnswerS));
    return {};
}

std::vector<uint32_t> nodes_of_mapping(std::string_view mapping, uint32_t size) {
    std::vector<uint32_t> nodes;
    for (size_t at = mapping.find('(', 1); at != std::string_view::npos; at = mapping.find('(', at + 1)) {
        std::array<uint32_t, 3> numbers{}; // the first node, nodes, ranks on each
        const char* next = mapping.data() + at;
        for (uint32_t& number : numbers) {
            const auto [end, failed] = std::from_chars(next + 1, mapping.data() + mapping.size(), number);
            if (failed != std::errc() || end == mapping.data() + mapping.size() || (*end != ',' && *end != ')'))
                return {};
            next = end;
        }
        const auto [first, count, ranks] = numbers;
        for (uint32_t node = 0; node < count && ranks > 0 && nodes.size() < size; ++node)
            nodes.insert(nodes.end(), std::min<size_t>(ranks, size - nodes.size()), first + node);
    }
    for (size_t i = 0; !nodes.empty() && nodes.size() < size; ++i)
        nodes.push_back(nodes[i]);
    return nodes;
}

} // namespace gpurun::platform
