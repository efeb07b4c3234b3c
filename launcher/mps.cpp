#include "mps.hpp"

#include "base/format.hpp"
#include "mps_limits.hpp"
#include "platform/byte_stream.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace gpurun::launcher {

namespace {

constexpr const char* kProgram = "nvidia-cuda-mps-control";
// Behind PATH: where a driver, and a container's runtime, put it.
constexpr const char* kOtherFolders = "/usr/bin:/usr/local/nvidia/bin";
// Where CUDA looks for a daemon unless CUDA_MPS_PIPE_DIRECTORY says otherwise.
constexpr const char* kDefaultPipes = "/tmp/nvidia-mps";
constexpr const char* kLongestPipe = "/control_privileged";
constexpr const char* kPipeVariable = "CUDA_MPS_PIPE_DIRECTORY";

// A daemon only makes a few pipes before it answers; the GPUs come with the first rank.
constexpr int64_t kReadyMs = 10'000;
// Between two questions: it may have made its pipe, and not listen yet.
constexpr int64_t kPauseMs = 50;
// For the user's daemon to answer.
constexpr int64_t kAnswerMs = 5000;
// For the daemon to end its server, which has no clients any more, and itself.
constexpr int64_t kQuitMs = 5000;
constexpr size_t kMostOfLine = 200;

base::Result<std::string> find_control() {
    const char* chosen = std::getenv("GPURUN_MPS_CONTROL");
    const bool given = chosen != nullptr && *chosen != '\0';
    const char* path = std::getenv("PATH");
    const std::string folders = (path != nullptr ? std::string(path) + ":" : std::string()) + kOtherFolders;
    platform::Program program = platform::find_program(given ? chosen : kProgram, folders.c_str());
    if (program.exit_status == 0)
        return std::move(program.path);
    if (given)
        return base::error(base::Status::kSystem, "GPURUN_MPS_CONTROL={}: {}", chosen, program.reason);
    if (program.exit_status == 126)
        return base::error(base::Status::kSystem, "{}", program.reason);
    return base::error(base::Status::kSystem,
                       "{} is neither in PATH nor in /usr/bin or /usr/local/nvidia/bin: install it (it is part of the "
                       "NVIDIA driver) or name it in GPURUN_MPS_CONTROL",
                       kProgram);
}

std::string user_pipes() {
    const char* chosen = std::getenv(kPipeVariable);
    return chosen != nullptr && *chosen != '\0' ? chosen : kDefaultPipes;
}

// "" if the file is not there or has no line.
std::string last_line(const std::string& path) {
    std::ifstream file(path);
    std::string last;
    for (std::string line; std::getline(file, line);)
        if (!line.empty())
            last = line;
    return last.substr(0, kMostOfLine);
}

std::string joined(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& word : words)
        all += (all.empty() ? "" : ",") + word;
    return all;
}

std::string describe(const platform::ProcessEnd& end) {
    return end.by_signal ? base::format("was killed by signal {}", end.value)
                         : base::format("exited with status {}", end.value);
}

// Of ranks that a daemon is to serve.
base::Result<void> check_clients(const std::vector<Device>& ranks) {
    for (const Device& device : ranks) {
        const auto there =
            std::count_if(ranks.begin(), ranks.end(), [&](const Device& other) { return other.uuid == device.uuid; });
        if (const size_t most = most_mps_clients(device.compute_major); static_cast<size_t>(there) > most)
            return base::error(base::Status::kArgument,
                               "{} ranks on GPU {}, but MPS serves at most {} processes on one: start fewer ranks, or "
                               "let them take turns with --mps=off",
                               there, device.bus_id, most);
    }
    return {};
}

} // namespace

base::Result<MpsPlan> plan_mps(MpsChoice choice, const std::vector<Device>& ranks) {
    MpsPlan plan;
    plan.required = choice == MpsChoice::kOn;
    bool shared = false;
    bool instances = false;
    for (const Device& rank : ranks) {
        instances = instances || !rank.parent.empty();
        if (rank.uuid.empty())
            continue;
        const bool seen = std::find(plan.gpus.begin(), plan.gpus.end(), rank.uuid) != plan.gpus.end();
        shared = shared || seen;
        if (!seen)
            plan.gpus.push_back(rank.uuid);
    }
    if (plan.required && plan.gpus.empty())
        return base::error(base::Status::kArgument, "--mps=on is for GPUs, but the ranks' devices are emulated: leave "
                                                    "--mps out, or ask for GPUs with --device=cuda");
    if (choice == MpsChoice::kOff || (choice == MpsChoice::kAuto && !shared))
        plan.gpus.clear();
    if (instances && plan.gpus.size() > 1) {
        if (plan.required)
            return base::error(base::Status::kArgument,
                               "--mps=on: an MPS daemon serves one MIG instance only, but the "
                               "ranks have {}: choose one with --gpus, or leave --mps out",
                               plan.gpus.size());
        plan.notice = "no MPS, so ranks that share a MIG instance take turns, about 150 us a message: a daemon serves "
                      "one instance only (--mps=off accepts that)";
        plan.gpus.clear();
    }
    if (!plan.gpus.empty())
        GPURUN_TRY(check_clients(ranks));
    return plan;
}

base::Result<MpsState> look_for_mps(const char* const* environment) {
    MpsState state;
    auto program = find_control();
    if (!program) {
        state.reason = program.error().detail;
        return state;
    }
    state.program = *program;
    GPURUN_ASSIGN(const platform::OrphanGuard guard, platform::OrphanGuard::create());
    GPURUN_ASSIGN(const auto loop, platform::EventLoop::create());
    GPURUN_ASSIGN(platform::Timer limit, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer pause, platform::Timer::create());
    Mps mps({*loop, guard, environment, {}, 0, [] { return false; }, [](const std::string&) {}}, state.program,
            {std::move(limit), std::move(pause)});
    GPURUN_ASSIGN(const bool there, mps.user_has_one());
    if (there)
        state.pipes = user_pipes();
    return state;
}

base::Result<std::unique_ptr<Mps>> Mps::start(const MpsPlan& plan, const Host& host) {
    GPURUN_ASSIGN(std::string program, find_control());
    GPURUN_ASSIGN(platform::Timer limit, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer pause, platform::Timer::create());
    std::unique_ptr<Mps> mps(new Mps(host, std::move(program), {std::move(limit), std::move(pause)}));
    GPURUN_ASSIGN(const bool there, mps->user_has_one());
    if (!there)
        GPURUN_TRY(mps->start_daemon(plan));
    return mps;
}

Mps::Mps(const Host& host, std::string program, Timers timers)
    : host_(host), program_(std::move(program)), timers_(std::move(timers)),
      limit_watch_(host.loop, timers_.limit.fd(),
                   [this] {
                       if (timers_.limit.acknowledge())
                           late_ = true;
                   }),
      pause_watch_(host.loop, timers_.pause.fd(), [this] {
          timers_.pause.acknowledge();
          ask_again_ = true;
      }) {
    limit_watch_.wait_for(platform::Ready::kReadable);
    pause_watch_.wait_for(platform::Ready::kReadable);
}

Mps::~Mps() {
    if (daemon_)
        daemon_->end_tree();
}

// Pipes stay behind when a daemon is killed, so only an answer counts.
base::Result<bool> Mps::user_has_one() {
    const std::string pipes = user_pipes();
    std::error_code failed;
    if (!std::filesystem::exists(pipes + "/control", failed))
        return false;
    variables_ = {{kPipeVariable, pipes}};
    GPURUN_TRY(send("get_server_list"));
    limit_wait(kAnswerMs);
    std::optional<bool> answer;
    while (!(answer = answered()) && may_wait())
        GPURUN_TRY(host_.loop.run_once());
    client_.reset();
    variables_.clear(); // ranks inherit what the user has set
    return answer.value_or(false);
}

base::Result<void> Mps::start_daemon(const MpsPlan& plan) {
    GPURUN_ASSIGN(platform::PrivateFolder folder, platform::PrivateFolder::create("gpurun-mps-"));
    folder_.emplace(std::move(folder));
    GPURUN_TRY(host_.guard.watch_folder(folder_->path()));
    GPURUN_ASSIGN(const std::string pipes, folder_->add_folder("pipe"));
    GPURUN_ASSIGN(const std::string logs, folder_->add_folder("log"));
    if (const std::string longest = pipes + kLongestPipe; longest.size() > platform::kLongestSocketPath)
        return base::error(base::Status::kSystem,
                           "{} has {} bytes, but a socket's path has at most {}: set TMPDIR to a folder with a shorter "
                           "path",
                           longest, longest.size(), platform::kLongestSocketPath);
    // The daemon numbers what it sees anew, for its clients too: they name GPUs by UUID, in the same order.
    variables_ = {
        {kPipeVariable, pipes}, {"CUDA_MPS_LOG_DIRECTORY", logs}, {"CUDA_VISIBLE_DEVICES", joined(plan.gpus)}};
    GPURUN_ASSIGN(platform::FolderWatch appeared, platform::FolderWatch::create(pipes));
    GPURUN_ASSIGN(const platform::UniqueFd nothing, platform::open_null());
    GPURUN_ASSIGN(const platform::UniqueFd said, folder_->add_file("said"));
    GPURUN_ASSIGN(platform::ChildProcess daemon, spawn("-f", nothing.get(), said.get(), &host_.guard));
    daemon_.emplace(std::move(daemon));
    daemon_watch_ = platform::Watch(host_.loop, daemon_->pidfd(), [this] { on_daemon_end(); });
    daemon_watch_.wait_for(platform::Ready::kReadable);
    GPURUN_TRY(wait_until_ready(appeared));
    ready_ = true;
    return {};
}

base::Result<void> Mps::wait_until_ready(platform::FolderWatch& folder) {
    platform::Watch appeared(host_.loop, folder.fd(), [&] {
        folder.acknowledge();
        ask_again_ = true;
    });
    appeared.wait_for(platform::Ready::kReadable);
    limit_wait(kReadyMs);
    while (may_wait()) {
        if (const auto end = daemon_->end())
            return failure(describe(*end));
        if (const std::optional<bool> answer = answered()) {
            client_.reset();
            if (*answer)
                return {};
            timers_.pause.start(kPauseMs);
        }
        if (!client_ && std::exchange(ask_again_, false))
            GPURUN_TRY(send("get_server_list"));
        GPURUN_TRY(host_.loop.run_once());
    }
    return failure(base::format("did not answer within {} s", kReadyMs / 1000));
}

base::Result<void> Mps::finish() {
    if (!daemon_)
        return {};
    ready_ = false;
    limit_wait(kQuitMs);
    GPURUN_TRY(send("quit"));
    while (!daemon_->end() && may_wait())
        GPURUN_TRY(host_.loop.run_once());
    return {};
}

std::vector<int> Mps::processes() const {
    std::vector<int> pids;
    for (const auto* child : {&daemon_, &client_})
        if (child->has_value())
            pids.push_back((*child)->pid());
    return pids;
}

base::Result<platform::ChildProcess> Mps::spawn(const char* argument, int in, int out,
                                                const platform::OrphanGuard* guard) {
    platform::SpawnRequest request;
    request.path = program_;
    request.arguments = {kProgram};
    if (argument != nullptr)
        request.arguments.emplace_back(argument);
    request.environment = environment_with(host_.environment, variables_);
    request.standard_in = in;
    request.standard_out = out;
    request.standard_error = out;
    request.signal_mask = host_.signal_mask;
    request.descriptor_limit = host_.descriptor_limit;
    request.guard = guard;
    return platform::ChildProcess::start(request);
}

// Sends a command to the daemon at variables_, by NVIDIA's program, since their protocol is not documented.
base::Result<void> Mps::send(const std::string& command) {
    GPURUN_ASSIGN(platform::Pipe input, platform::create_pipe());
    platform::write_now(input.write_end.get(), command + "\n");
    GPURUN_ASSIGN(const platform::UniqueFd nothing, platform::open_null());
    GPURUN_ASSIGN(platform::ChildProcess client, spawn(nullptr, input.read_end.get(), nothing.get(), nullptr));
    client_watch_.stop();
    client_.emplace(std::move(client));
    // So that the event loop returns when the client has ended.
    client_watch_ =
        platform::Watch(host_.loop, client_->pidfd(), [this] { client_watch_.wait_for(platform::Ready::kNothing); });
    client_watch_.wait_for(platform::Ready::kReadable);
    return {};
}

// Whether the daemon took the last command (nvidia-cuda-mps-control(1)); nothing while that is open.
std::optional<bool> Mps::answered() {
    const auto end = client_ ? client_->end() : std::nullopt;
    if (!end)
        return std::nullopt;
    return !end->by_signal && end->value == 0;
}

void Mps::limit_wait(int64_t limit_ms) {
    late_ = false;
    timers_.limit.start(limit_ms);
}

void Mps::on_daemon_end() {
    daemon_watch_.stop();
    if (const auto end = daemon_->end(); end && ready_)
        host_.say(base::format("the MPS daemon of this job {}: ranks cannot use their GPUs any more", describe(*end)));
}

base::Error Mps::failure(const std::string& what) const {
    std::string why = last_line(folder_->path() + "/said");
    if (why.empty())
        why = last_line(folder_->path() + "/log/control.log");
    return base::error(base::Status::kSystem, "{} {}{}{}", program_, what, why.empty() ? "" : ": ", why);
}

} // namespace gpurun::launcher
