// One job: its ranks from start to end, and gpurun's exit status.
//
// Owns the ranks' processes, the job's segment and everything between. One thread, one event loop: rank ends
// (pidfds), their output, the wire, signals to gpurun and the grace timer are all handlers on it. A rank that fails
// is marked dead in the segment before anything else, so that whoever waits for it goes on at once; then the job is
// ended unless it is to keep going. Destroying a Job kills what is left of it, whatever that has done to get away.
#pragma once

#include "assembly.hpp"
#include "debugger.hpp"
#include "ending_options.hpp"
#include "input.hpp"
#include "inquiry.hpp"
#include "mps.hpp"
#include "outputs.hpp"
#include "placement.hpp"
#include "platform/cgroup.hpp"
#include "platform/foreground.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/process.hpp"
#include "platform/signals.hpp"
#include "tracing.hpp"
#include "verdict.hpp"

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

// A program that ranks run, ready to be started.
struct ProgramPlan {
    std::string path;
    std::vector<std::string> arguments; // the first is the program's name
    std::string folder;                 // where it runs; "": where gpurun does
};

struct JobPlan {
    std::vector<ProgramPlan> programs;
    std::vector<RankPlan> ranks;
    const char* const* environment = nullptr;
    uint32_t cores = 1; // processors that the ranks share
    OutputOptions output;
    EndingOptions ending;
    std::optional<Debugger> debugger;
    MpsPlan mps;
    std::string trace; // the file; "": none
    TraceLimits trace_limits;
    size_t descriptor_limit = 0; // set by Job::create()
};

class Job : private Assembly::Observer {
  public:
    static base::Result<std::unique_ptr<Job>> create(JobPlan plan);
    ~Job() override;

    // Returns gpurun's exit status once every rank has ended and all output has been passed on.
    base::Result<int> run();

  private:
    struct Rank {
        explicit Rank(platform::ChildProcess started) : process(std::move(started)) {}

        platform::ChildProcess process;
        platform::Watch ended;
        bool live = true;
        bool left_early = false; // closed its socket in gpurun_init()
    };
    // How far the ending of the job has gone; each stage follows the one before after the grace.
    enum class Ending { kNone, kRefused, kTerminated, kKilled };

    // What has to be got from the system before there can be a job.
    struct Resources {
        std::unique_ptr<platform::EventLoop> loop;
        platform::SignalSource signals;
        platform::JobSegment segment;
        std::vector<int> older_children; // of whoever has become gpurun by exec, such as a shell: none of its business
        std::string name;
        platform::OrphanGuard guard;
        std::optional<platform::Cgroup> cgroup; // of the ranks; none where the system does not allow it
        platform::Timer grace;
        platform::Timer departure;
        platform::Timer timeout;
        platform::Timer hang;
        std::unique_ptr<Outputs> outputs;
        std::unique_ptr<Tracing> tracing; // null: nobody has asked for it
    };
    Job(JobPlan plan, Resources resources);

    uint32_t size() const { return static_cast<uint32_t>(plan_.ranks.size()); }
    base::Result<void> start_mps();
    base::Result<void> start_ranks();
    base::Result<void> start_rank(uint32_t rank, platform::Pipe out, bool on_terminal);
    platform::SpawnRequest describe_start(uint32_t rank, int control_fd, bool on_terminal) const;
    bool has_terminal(uint32_t rank) const;
    void add_debugger(platform::SpawnRequest& request) const;
    base::Result<platform::UniqueFd> input_for(uint32_t rank);
    std::optional<int> failed_program();

    void on_rank_end(uint32_t rank);
    void on_signal(int signal);
    void on_end_request(int signal);
    void suspend();
    void lend_terminal();
    void look_for_stop();
    void on_grace_over();
    void on_departure();
    void on_timeout();
    void hurry();
    // ---- job_hangs.cpp
    struct Wait {
        uint32_t rank;
        uint64_t thread;
        int64_t since_ns;
        // Of a message of a graph, else 0. Then `thread` says which one it is, and `since_ns` about how long it waits.
        uint64_t run = 0;
        bool operator==(const Wait& other) const {
            return rank == other.rank && thread == other.thread && run == other.run &&
                   (run != 0 || since_ns == other.since_ns);
        }
    };
    void ask_ranks(const std::string& why);
    RankReport look_at(uint32_t rank) const;
    void on_wait_reports(const WaitReports& reports);
    static std::vector<Wait> waits_of(const WaitReports& reports);
    bool hangs_anew(const WaitReports& reports) const;
    void on_hang_time();
    bool rank_answered(uint32_t rank, const platform::wire::Answer& answer) override;
    bool rank_answered_all(uint32_t rank, const platform::wire::Answered& answered) override;
    // ---- told by Assembly
    void rank_said_hello(uint32_t rank) override;
    void rank_misbehaved(uint32_t rank, const std::string& what) override;
    void versions_differ(uint32_t rank, const std::string& what) override;
    void rank_left_early(uint32_t rank) override;
    void rank_aborted(uint32_t rank, int code) override;

    void fail(uint32_t rank, const Failure& failure, bool whole_job);
    void end_ranks(int signal);
    void enter(Ending ending);
    std::vector<int> rank_pids() const;
    std::vector<int> other_children() const;
    void signal_ranks(std::initializer_list<int> signals);
    void signal_everything(int signal);
    bool is_own_child(int pid) const;
    void end_left_over();
    base::Result<void> pass_output();
    void write_trace();
    bool is_finalized(uint32_t rank) const;
    void say(const std::string& text) { has_.outputs->say(text); }

    JobPlan plan_;
    Resources has_;
    Assembly assembly_;
    std::unique_ptr<InputForwarder> input_;            // null where a rank reads it itself, or none does
    std::unique_ptr<platform::TerminalLoan> terminal_; // of the rank under a debugger; null where it needs none
    std::unique_ptr<Mps> mps_;                         // outlives the ranks, its clients; null where there is none
    std::vector<std::unique_ptr<Rank>> ranks_;
    platform::Watch signal_watch_;
    platform::Watch grace_watch_;
    platform::Watch departure_watch_;
    platform::Watch timeout_watch_;
    platform::Watch hang_watch_;
    std::unique_ptr<Inquiry> inquiry_;
    std::string hangs_wanted_; // why a table is to be printed, once ranks have answered
    int hangs_looks_ = 2;      // of the inquiry under way
    std::vector<Wait> reported_waits_;

    bool timed_out_ = false; // so not even its output may take longer than the grace
    bool hurried_ = false;   // asked to end again, or with nothing left but to tidy up
    uint32_t live_ = 0;
    Ending ending_ = Ending::kNone;
    std::optional<int> exit_status_; // of the first failure
};

} // namespace gpurun::launcher
