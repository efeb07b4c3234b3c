// How a job starts: its resources, then a process for each rank.
#include "job.hpp"

#include "base/format.hpp"
#include "cpu_list.hpp"
#include "environment.hpp"
#include "outputs.hpp"
#include "platform/adoption.hpp"
#include "platform/byte_stream.hpp"
#include "platform/job_name.hpp"
#include "platform/process_tree.hpp"
#include "platform/pseudo_terminal.hpp"
#include "standard_outputs.hpp"
#include "summary.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <system_error>

namespace gpurun::launcher {

namespace {
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;
constexpr int kOwnFailure = 1;

// What a rank is told only when it starts, in addition to what was planned.
std::vector<Variable> start_variables(const RankPlan& plan, const ProgramPlan& program, int control_fd,
                                      const std::string& job, const Mps* mps) {
    std::vector<Variable> variables = plan.variables;
    if (mps != nullptr) {
        set_variables(variables, mps->variables());
        if (plan.sees_only_its_own) // of the GPUs that the daemon serves
            for (const Variable& planned : plan.variables)
                if (planned.name == "CUDA_VISIBLE_DEVICES")
                    set_variables(variables, std::span(&planned, 1));
    }
    const Variable own[] = {{"GPURUN_CONTROL_FD", std::to_string(control_fd)},
                            {"GPURUN_MPS", mps != nullptr ? "1" : "0"},
                            {"GPURUN_JOB", job}};
    set_variables(variables, own);
    if (const Variable here[] = {{"PWD", program.folder}}; !program.folder.empty())
        set_variables(variables, here);
    return variables;
}

// `path` is that of what was to be executed: the program, or the debugger that runs it.
std::string describe(const platform::StartFailure& failure, const RankPlan& plan, const ProgramPlan& program,
                     const std::string& path) {
    const std::string why = std::generic_category().message(failure.error_number);
    switch (failure.step) {
    case platform::StartFailure::Step::kFolder: return base::format("--chdir {}: {}", program.folder, why);
    case platform::StartFailure::Step::kMemory:
        return base::format("--membind: memory cannot be bound to NUMA node {} here ({}); leave --membind out",
                            format_cpus(plan.binding.memory), why);
    default: break;
    }
    if (failure.error_number == ENOENT) // but the program itself was found
        return base::format("{} cannot be executed: its interpreter does not exist, which is the program after #! in "
                            "its first line (a carriage return there counts) or the loader of a binary",
                            path);
    return base::format("{} cannot be executed: {}", path, why);
}

// The guard knows of it first, so that there is no moment at which it could stay behind.
std::optional<platform::Cgroup> make_cgroup(const platform::OrphanGuard& guard, const std::string& job) {
    const std::optional<std::string> path = platform::Cgroup::path_of(job);
    if (!path || !guard.watch_cgroup(*path))
        return std::nullopt;
    return platform::Cgroup::create(*path);
}

base::Result<platform::JobSegment> make_segment(const JobPlan& plan) {
    if (!plan.nodes.empty())
        return platform::JobSegment::create(plan.nodes, plan.nodes[plan.first_rank], plan.cores);
    const auto size = static_cast<uint32_t>(plan.ranks.size());
    GPURUN_ASSIGN(platform::JobSegment segment, platform::JobSegment::create(size, plan.cores));
    for (uint32_t rank = 0; rank < size; ++rank)
        segment.rank(rank).node = rank * plan.emulated_nodes / size;
    return segment;
}

} // namespace

base::Result<std::unique_ptr<Job>> Job::create(JobPlan plan, NodeSide side) {
    plan.descriptor_limit = platform::raise_descriptor_limit();
    constexpr std::array kListened = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD, SIGWINCH};
    constexpr std::array kQuestions = {SIGQUIT};
    std::vector<int> older_children = platform::children_of_this();
    GPURUN_TRY(platform::adopt_orphans());
    GPURUN_ASSIGN(platform::OrphanGuard guard, platform::OrphanGuard::create());
    const std::string own_name = platform::new_job_name();
    guard.watch_job(own_name);
    std::optional<platform::OwnSocket> socket;
    if (guard.watch_socket(platform::path_in_meeting_place(own_name))) // before it is there
        if (auto listening = platform::OwnSocket::listen(own_name))
            socket.emplace(std::move(*listening));
    std::string name = platform::nested_job_name(std::getenv("GPURUN_JOB"), own_name);
    std::optional<platform::Cgroup> cgroup = make_cgroup(guard, name);
    GPURUN_ASSIGN(platform::SignalSource signals, platform::SignalSource::create(kListened, kQuestions));
    std::unique_ptr<platform::EventLoop> own_loop;
    if (side.loop == nullptr) {
        GPURUN_ASSIGN(own_loop, platform::EventLoop::create());
        side.loop = own_loop.get();
    }
    GPURUN_ASSIGN(platform::JobSegment segment, make_segment(plan));
    const uint32_t size = segment.size();
    GPURUN_ASSIGN(platform::Timer grace, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer departure, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer timeout, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer hang, platform::Timer::create());
    std::unique_ptr<RankOutputs> outputs = std::move(side.outputs); // goes before the loop, also if the rest fails
    if (outputs == nullptr) {
        GPURUN_ASSIGN(outputs, Outputs::create(*side.loop, plan.output, static_cast<uint32_t>(plan.ranks.size())));
    }
    std::unique_ptr<Tracing> tracing;
    if (!plan.trace.empty()) {
        const auto ranks = static_cast<uint32_t>(plan.ranks.size());
        GPURUN_ASSIGN(tracing, side.uplink == nullptr ? Tracing::create(plan.trace, ranks, plan.trace_limits)
                                                      : Tracing::record(ranks, size, plan.trace_limits));
    }
    std::unique_ptr<Job> job(
        new Job(std::move(plan), Resources{std::move(own_loop), side.loop, std::move(signals), std::move(segment),
                                           std::move(older_children), std::move(name), std::move(guard),
                                           std::move(socket), std::move(cgroup), std::move(grace), std::move(departure),
                                           std::move(timeout), std::move(hang), std::move(outputs),
                                           std::move(side.input), std::move(tracing), side.uplink}));
    Job& self = *job;
    GPURUN_ASSIGN(self.inquiry_, Inquiry::create({*self.has_.loop, self.assembly_,
                                                  [&self](uint32_t rank) { return self.look_at(rank); },
                                                  [&self](const WaitReports& ranks) { self.on_wait_reports(ranks); }},
                                                 self.size(), size));
    if (self.has_.socket)
        self.callers_.emplace(*self.has_.loop, self.has_.socket->fd(),
                              [&self](std::span<const std::byte> message, platform::MessageSocket caller,
                                      const platform::UniqueFd&) { self.hear_caller(message, std::move(caller)); });
    return job;
}

std::vector<uint32_t> Job::numbers() const {
    std::vector<uint32_t> numbers(size());
    std::iota(numbers.begin(), numbers.end(), plan_.first_rank);
    return numbers;
}

Job::Job(JobPlan plan, Resources resources)
    : plan_(std::move(plan)), has_(std::move(resources)), assembly_(*has_.loop, has_.segment, *this, numbers()),
      signal_watch_(*has_.loop, has_.signals.fd(),
                    [this] {
                        while (const std::optional<int> signal = has_.signals.next())
                            on_signal(*signal);
                    }),
      grace_watch_(*has_.loop, has_.grace.fd(), [this] { on_grace_over(); }),
      departure_watch_(*has_.loop, has_.departure.fd(), [this] { on_departure(); }),
      timeout_watch_(*has_.loop, has_.timeout.fd(), [this] { on_timeout(); }),
      hang_watch_(*has_.loop, has_.hang.fd(), [this] { on_hang_time(); }),
      listing_([this](const WaitReports& reports) { return describe_job(reports); }) {
    signal_watch_.wait_for(platform::Ready::kReadable);
    grace_watch_.wait_for(platform::Ready::kReadable);
    departure_watch_.wait_for(platform::Ready::kReadable);
    timeout_watch_.wait_for(platform::Ready::kReadable);
    hang_watch_.wait_for(platform::Ready::kReadable);
}

base::Result<int> Job::run() {
    if (plan_.ending.timeout_ms)
        has_.timeout.start(*plan_.ending.timeout_ms);
    if (plan_.ending.hang_timeout_ms)
        on_hang_time();
    GPURUN_TRY(start_mps());
    if (hurried_) // by a signal, the timeout or the head, meanwhile
        return exit_status_.value_or(kOwnFailure);
    GPURUN_TRY(start_ranks());
    if (const std::optional<int> exit_status = failed_program())
        return *exit_status;
    if (has_.uplink != nullptr)
        has_.uplink->ranks_started();
    while (live_ > 0)
        GPURUN_TRY(has_.loop->run_once());
    if (timed_out_ && ending_ < Ending::kTerminated) // the last one ended while it was asked what it waits for
        end_for_timeout();
    end_left_over();
    has_.outputs->finish();
    if (mps_ != nullptr) // what does not end when it is asked is killed with this job
        static_cast<void>(mps_->finish());
    GPURUN_TRY(pass_output());
    if (has_.tracing != nullptr && has_.uplink == nullptr) {
        write_trace();
        GPURUN_TRY(pass_output());
    }
    return exit_status_.value_or(has_.outputs->failed() ? kOwnFailure : 0);
}

base::Result<void> Job::pass_output() {
    while (!has_.outputs->passed())
        GPURUN_TRY(has_.loop->run_once());
    return {};
}

base::Result<void> Job::start_mps() {
    if (plan_.mps.gpus.empty())
        return {};
    auto started = Mps::start(plan_.mps, {*has_.loop, has_.guard, plan_.environment, has_.signals.original_mask(),
                                          plan_.descriptor_limit, [this] { return hurried_; },
                                          [this](const std::string& line) { say(line); }});
    if (started)
        mps_ = std::move(*started);
    else if (hurried_) // so nobody waits for it any more
        return {};
    else if (plan_.mps.required)
        return base::error(started.error().status, "--mps=on: {}", started.error().detail);
    else
        say(base::format("no MPS, so ranks that share a GPU take turns, about 150 us a message (--mps=off accepts "
                         "that): {}",
                         started.error().detail));
    return {};
}

base::Result<void> Job::start_ranks() {
    GPURUN_ASSIGN(StandardOutputs outputs, open_standard_outputs(plan_.output.pty, size()));
    if (!outputs.notice.empty())
        say(outputs.notice);
    if (plan_.debugger)
        terminal_ = platform::TerminalLoan::of(platform::kStandardInput);
    for (uint32_t rank = 0; rank < size(); ++rank)
        GPURUN_TRY(start_rank(rank, std::move(outputs.of_ranks[rank]), outputs.terminals));
    return {};
}

platform::SpawnRequest Job::describe_start(uint32_t rank, int control_fd, bool on_terminal) const {
    const RankPlan& plan = plan_.ranks[rank];
    const ProgramPlan& program = plan_.programs[plan.program];
    platform::SpawnRequest request;
    request.path = program.path;
    request.arguments = program.arguments;
    request.folder = program.folder;
    request.environment =
        environment_with(plan_.environment, start_variables(plan, program, control_fd, has_.name, mps_.get()));
    if (on_terminal && !(has_terminal(rank) && platform::is_terminal(platform::kStandardOutput)))
        describe_terminal(request.environment, plan.variables, has_.outputs->only_on_terminal());
    if (plan_.debugger && plan_.debugger->rank == rank)
        add_debugger(request);
    request.inherited = control_fd;
    request.cpus = plan.binding.cpus;
    request.cgroup = has_.cgroup ? has_.cgroup->fd() : -1;
    request.memory = plan.binding.memory;
    request.strict_memory = plan.binding.strict_memory;
    request.signal_mask = has_.signals.original_mask();
    request.descriptor_limit = plan_.descriptor_limit;
    return request;
}

base::Result<void> Job::start_rank(uint32_t rank, platform::Pipe out, bool on_terminal) {
    GPURUN_ASSIGN(auto sockets, platform::MessageSocket::pair());
    GPURUN_ASSIGN(platform::Pipe error, platform::create_pipe());
    GPURUN_ASSIGN(const platform::UniqueFd in, input_for(rank));
    platform::SpawnRequest request = describe_start(rank, sockets[1].fd(), on_terminal);
    if (has_terminal(rank))
        request.foreground_of = terminal_->fd();
    request.standard_in = in ? in.get() : platform::kStandardInput;
    // The debugger itself is on the terminal, as far as gpurun is. The other ends see the end of the stream then.
    const auto target = [&](int own, const platform::Pipe& pipe) {
        return has_terminal(rank) && platform::is_terminal(own) ? own : pipe.write_end.get();
    };
    request.standard_out = target(platform::kStandardOutput, out);
    request.standard_error = target(platform::kStandardError, error);
    if (on_terminal)
        platform::set_window_size(out.read_end.get(), has_.outputs->window_for(rank));
    GPURUN_ASSIGN(platform::ChildProcess process, platform::ChildProcess::start(request));
    has_.guard.watch(process.pid());

    auto& started = *ranks_.emplace_back(std::make_unique<Rank>(std::move(process)));
    std::function<void()> stop_writer;
    if (on_terminal)
        stop_writer = [&started] { started.process.signal_group(SIGPIPE); };
    has_.outputs->connect(rank, std::move(out.read_end), std::move(error.read_end), std::move(stop_writer));
    started.ended = platform::Watch(*has_.loop, started.process.pidfd(), [this, rank] { on_rank_end(rank); });
    started.ended.wait_for(platform::Ready::kReadable);
    if (has_.tracing != nullptr)
        has_.tracing->started(rank, started.process.pid(), describe_device(plan_.ranks[rank].device));
    assembly_.connect(rank, std::move(sockets[0]), has_.tracing != nullptr ? has_.tracing->fd(rank) : -1);
    ++live_;
    if (plan_.debugger && plan_.debugger->rank == rank)
        say(base::format("rank {} runs under {} (pid {}){}", rank, plan_.debugger->command[0], started.process.pid(),
                         has_terminal(rank) ? ", which has the terminal" : ""));
    return {};
}

// Also where its standard output goes elsewhere: keys are for it.
bool Job::has_terminal(uint32_t rank) const { return terminal_ != nullptr && plan_.debugger->rank == rank; }

void Job::add_debugger(platform::SpawnRequest& request) const {
    request.arguments[0] = request.path;
    request.arguments.insert(request.arguments.begin(), plan_.debugger->command.begin(), plan_.debugger->command.end());
    request.path = plan_.debugger->path;
}

// A rank that alone reads gpurun's input has it itself, where it may (none: an invalid descriptor).
base::Result<platform::UniqueFd> Job::input_for(uint32_t rank) {
    const RankSet& readers = plan_.output.readers;
    if (!readers.has(number(rank)))
        return platform::open_null();
    if (has_terminal(rank))
        return platform::UniqueFd();
    const bool for_all = size() > 1 && readers.has(number(0)) && readers.has(number(1));
    const bool on_node = has_.uplink != nullptr;
    if (!for_all && on_node)
        return std::move(has_.input);
    if (!for_all && !platform::is_terminal(platform::kStandardInput))
        return platform::UniqueFd();
    GPURUN_ASSIGN(platform::Pipe pipe, platform::create_pipe());
    if (input_ == nullptr) {
        GPURUN_ASSIGN(input_, on_node ? InputForwarder::create(*has_.loop, std::move(has_.input))
                                      : InputForwarder::create(*has_.loop, platform::kStandardInput));
    }
    input_->connect(rank, std::move(pipe.write_end));
    return std::move(pipe.read_end);
}

// The first rank whose program cannot be started stands for all.
std::optional<int> Job::failed_program() {
    for (uint32_t rank = 0; rank < size(); ++rank)
        if (const platform::StartFailure failed = ranks_[rank]->process.wait_for_exec();
            failed.step != platform::StartFailure::Step::kNone) {
            const RankPlan& plan = plan_.ranks[rank];
            const int status = failed.step != platform::StartFailure::Step::kExec ? kOwnFailure
                               : failed.error_number == ENOENT                    ? kNotFound
                                                                                  : kCannotExecute;
            const ProgramPlan& program = plan_.programs[plan.program];
            const bool is_debugged = plan_.debugger && plan_.debugger->rank == rank;
            const std::string why = describe(failed, plan, program, is_debugged ? plan_.debugger->path : program.path);
            if (has_.uplink != nullptr)
                has_.uplink->start_failed(status, why);
            else
                platform::write_all(platform::kStandardError, base::format("gpurun: {}\n", why));
            return status;
        }
    return std::nullopt;
}

} // namespace gpurun::launcher
