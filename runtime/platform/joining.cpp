#include "platform/joining.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"
#include "platform/meeting_place.hpp"
#include "platform/process.hpp"
#include "platform/supervisors.hpp"
#include "platform/system_error.hpp"
#include "platform/wire.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

constexpr int kMostCalls = 100; // each at the end of a job of the same name

// GPURUN_LAUNCHER, else the one that was installed with this library, else the first in PATH.
Result<std::string> find_launcher(const base::Settings& settings) {
    if (!settings.launcher.empty()) {
        if (::access(settings.launcher.c_str(), X_OK) == 0)
            return settings.launcher;
        return base::error(Status::kLauncher, "GPURUN_LAUNCHER={}: {}; it is to name the gpurun program",
                           settings.launcher, std::strerror(errno));
    }
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void*>(&join_job), &self) != 0 && self.dli_fname != nullptr) {
        const std::string library = self.dli_fname;
        const std::string beside = library.substr(0, library.rfind('/') + 1) + GPURUN_BIN_FROM_LIB "/gpurun";
        if (::access(beside.c_str(), X_OK) == 0)
            return beside;
    }
    const Program found = find_program("gpurun", std::getenv("PATH"));
    if (found.exit_status == 0)
        return found.path;
    return base::error(Status::kLauncher,
                       "the gpurun program, which watches over jobs that it did not start, is neither beside this "
                       "library nor in PATH: set GPURUN_LAUNCHER to where it is");
}

// What the supervisor is not to inherit: signals, and all descriptors but `listener`, which becomes number 3.
class SpawnSettings {
  public:
    explicit SpawnSettings(int listener) {
        ::posix_spawn_file_actions_init(&files_);
        ::posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_addopen(&files_, 1, "/dev/null", O_WRONLY, 0);
        ::posix_spawn_file_actions_addopen(&files_, 2, "/dev/null", O_WRONLY, 0);
        ::posix_spawn_file_actions_adddup2(&files_, listener, wire::kListener);
        ::posix_spawnattr_init(&attributes_);
        sigset_t none;
        sigset_t all;
        ::sigemptyset(&none);
        ::sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes_, &none);
        ::posix_spawnattr_setsigdefault(&attributes_, &all);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnSettings() {
        ::posix_spawn_file_actions_destroy(&files_);
        ::posix_spawnattr_destroy(&attributes_);
    }
    SpawnSettings(const SpawnSettings&) = delete;

    posix_spawn_file_actions_t files_;
    posix_spawnattr_t attributes_;
};

// The program goes into the background by itself; its first process ends at once.
Result<void> start_supervisor(const std::string& program, const std::string& job, UniqueFd listener) {
    if (listener.get() <= 2) { // the program has closed its standard streams
        UniqueFd moved(::fcntl(listener.get(), F_DUPFD_CLOEXEC, wire::kListener));
        listener = std::move(moved);
    }
    const SpawnSettings how(listener.get());
    const char* const arguments[] = {kSupervisor, kSupervise, job.c_str(), nullptr};
    pid_t pid = -1;
    const int failed = ::posix_spawn(&pid, program.c_str(), &how.files_, &how.attributes_,
                                     const_cast<char* const*>(arguments), environ);
    if (failed != 0)
        return base::error(Status::kLauncher, "{} cannot be started: {} (GPURUN_LAUNCHER names the gpurun program)",
                           program, std::strerror(failed));
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return {}; // the program reaps all children itself
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return base::error(Status::kLauncher,
                           "{} could not watch over the job: it is not the gpurun of this library "
                           "(GPURUN_LAUNCHER names the right one)",
                           program);
    return {};
}

// `path` becomes that of the socket on which the supervisor listens.
Result<MessageSocket> call(const base::Settings& settings, std::string& path) {
    GPURUN_ASSIGN(const MeetingPlace place, MeetingPlace::lock());
    path = place.path_of(settings.job);
    GPURUN_ASSIGN(MessageSocket socket, place.connect(path));
    if (socket)
        return socket;
    auto program = find_launcher(settings);
    if (!program) {
        place.remove(path);
        return std::move(program).failure();
    }
    GPURUN_ASSIGN(UniqueFd listener, place.listen(path));
    GPURUN_ASSIGN(socket, place.connect(path));
    if (auto started = start_supervisor(*program, settings.job, std::move(listener)); !started) {
        place.remove(path);
        return std::move(started).failure();
    }
    return socket;
}

// Nothing: the job has just ended, and the next one of this name is to be joined.
Result<std::optional<wire::Joined>> hear_answer(MessageSocket& socket) {
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
    GPURUN_ASSIGN(const MessageSocket::Received received, socket.receive(bytes));
    const auto message = std::span<const std::byte>(bytes).first(received.bytes);
    const wire::Header header = wire::header_of(message);
    const bool is_ours = header.magic == wire::kMagic;
    if (auto refused = is_ours ? wire::refused_by(message) : std::nullopt)
        return *std::move(refused);
    if (is_ours && header.kind == wire::Kind::kAgain)
        return std::optional<wire::Joined>();
    if (wire::Joined joined; is_ours && header.kind == wire::Kind::kJoined && message.size() == sizeof joined) {
        std::memcpy(&joined, message.data(), sizeof joined);
        joined.address[sizeof joined.address - 1] = '\0';
        return std::optional(joined);
    }
    return base::error(Status::kLauncher,
                       "the gpurun that watched over the job ended while ranks were joining: it was killed, or is not "
                       "the gpurun of this library; start the ranks again");
}

} // namespace

Result<JoinedJob> join_job(const base::Settings& settings) {
    const UniqueFd meeting_listener(settings.meeting_listener);
    GPURUN_TRY(check_meeting_name(settings.job));
    if (settings.size > static_cast<int>(kMaxJobRanks))
        return base::error(Status::kSetting, "a job has at most {} ranks, not {}", kMaxJobRanks, settings.size);
    const int here = settings.meeting.empty() ? settings.size : settings.local_size;
    if (here > static_cast<int>(kMaxRanks))
        return base::error(Status::kSetting, "a node has at most {} ranks of a job, not {}", kMaxRanks, here);
    wire::Join join;
    join.rank = settings.rank;
    join.size = settings.size;
    join.timeout_ms = settings.join_timeout_s * 1000;
    join.here = here;
    settings.meeting.copy(join.meeting, kLongestMeeting);
    for (int i = 0; i < kMostCalls; ++i) {
        std::string path;
        GPURUN_ASSIGN(MessageSocket socket, call(settings, path));
        // If it has closed, what it said before is still there to be read.
        static_cast<void>(socket.send(wire::bytes_of(join), meeting_listener.get()));
        auto answer = hear_answer(socket);
        if (!answer) {
            sweep_meeting_place(path);
            return std::move(answer).failure();
        }
        if (*answer)
            return JoinedJob{std::move(socket), (*answer)->address};
    }
    return base::error(Status::kLauncher, "jobs named {} ended again and again while this rank joined", settings.job);
}

} // namespace gpurun::platform
