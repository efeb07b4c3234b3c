// One job: its ranks from start to end, and gpurun's exit status.
//
// Owns the ranks' processes, the job's segment and everything between. One thread, one event loop: rank ends
// (pidfds), their output, the wire, signals to gpurun and the grace timer are all handlers on it. A rank that fails
// is marked dead in the segment before anything else, so that whoever waits for it goes on at once; then the job is
// ended unless it is to keep going. Destroying a Job kills what is left of it, whatever that has done to get away.
#pragma once

#include "assembly.hpp"
#include "callers.hpp"
#include "debugger.hpp"
#include "ending_options.hpp"
#include "input.hpp"
#include "inquiry.hpp"
#include "listing.hpp"
#include "mps.hpp"
#include "output_options.hpp"
#include "placement.hpp"
#include "platform/cgroup.hpp"
#include "platform/foreground.hpp"
#include "platform/meeting_place.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/process.hpp"
#include "platform/signals.hpp"
#include "rank_outputs.hpp"
#include "told_hangs.hpp"
#include "tracing.hpp"
#include "uplink.hpp"
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
    std::string trace; // the file, which with several nodes the head writes; "": none
    TraceLimits trace_limits;
    uint32_t emulated_nodes = 1;
    size_t descriptor_limit = 0; // set by Job::create()
    // With several nodes: `ranks` are those of this node, in a row.
    uint32_t first_rank = 0;
    std::vector<uint32_t> nodes; // of each rank of the whole job; empty: `ranks` are all
};

// What a Job on a node has in place of its own. It decides nothing that concerns other nodes: it tells the uplink.
struct NodeSide {
    platform::EventLoop* loop = nullptr; // outlives the job, as the uplink does
    std::unique_ptr<RankOutputs> outputs;
    platform::UniqueFd input; // what brings gpurun's input; none where no rank here reads it
    Uplink* uplink = nullptr;
};

class Job : private Assembly::Observer {
  public:
    static base::Result<std::unique_ptr<Job>> create(JobPlan plan, NodeSide side = {});
    ~Job() override;

    // Returns gpurun's exit status once every rank has ended and all output has been passed on.
    base::Result<int> run();

    // ---- what the head of several nodes tells this one (job_node.cpp); ranks by their numbers in the job
    const platform::JobSegment& segment() const { return has_.segment; }
    int pid_of(uint32_t index) const { return ranks_[index]->process.pid(); }
    Tracing* tracing() const { return has_.tracing.get(); } // null: nobody has asked for it
    // Every rank of the job is ready, and the records of those of other nodes are in the segment.
    void release();
    void mark_dead(uint32_t rank);
    void tell_steps(uint32_t rank, uint32_t steps);
    void mark_finalized(uint32_t rank);
    void refuse(base::Status status, const std::string& text) { assembly_.refuse(status, text); }
    void end(int signal) { end_ranks(signal); }
    // The head has gone: nobody reads any more what ranks print, and they get this long.
    void lose_head(int64_t grace_ms);
    void kill() { hurry(); }
    void signal_each(int signal);
    void stop() { signal_everything(SIGSTOP); }
    void go_on() { signal_everything(SIGCONT); }
    // What its ranks wait for, which the uplink is told; a later question stands for an earlier one.
    void tell_waits(uint32_t question);

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
        std::unique_ptr<platform::EventLoop> own_loop; // null: on a node, the loop is its daemon's
        platform::EventLoop* loop = nullptr;
        platform::SignalSource signals;
        platform::JobSegment segment;
        std::vector<int> older_children; // of whoever has become gpurun by exec, such as a shell: none of its business
        std::string name;
        platform::OrphanGuard guard;
        std::optional<platform::OwnSocket> socket; // where gpurun jobs asks; none where it cannot be made
        std::optional<platform::Cgroup> cgroup;    // of the ranks; none where the system does not allow it
        platform::Timer grace;
        platform::Timer departure;
        platform::Timer timeout;
        platform::Timer hang;
        std::unique_ptr<RankOutputs> outputs;
        platform::UniqueFd input;         // on a node, until ranks have it: who writes to it learns of their ends
        std::unique_ptr<Tracing> tracing; // null: nobody has asked for it
        Uplink* uplink = nullptr;         // null: this is the only node
    };
    Job(JobPlan plan, Resources resources);

    uint32_t size() const { return static_cast<uint32_t>(plan_.ranks.size()); } // of this node
    uint32_t number(uint32_t index) const { return plan_.first_rank + index; }  // in the job
    std::vector<uint32_t> numbers() const;
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
    void end_for_timeout();
    bool anyone_joined() const;
    double timeout_s() const;
    void hurry();
    // ---- job_hangs.cpp
    void ask_ranks(const std::string& why);
    RankReport look_at(uint32_t rank) const;
    void hear_caller(std::span<const std::byte> message, platform::MessageSocket socket);
    ListedJob describe_job(const WaitReports& reports) const;
    void on_wait_reports(const WaitReports& reports);
    bool hangs_anew(const WaitReports& reports) const;
    void look_for_head(const WaitReports& reports);
    void on_hang_time();
    bool rank_answered(uint32_t rank, const platform::wire::Answer& answer) override;
    bool rank_answered_all(uint32_t rank, const platform::wire::Answered& answered) override;
    // ---- told by Assembly
    void rank_said_hello(uint32_t rank) override;
    void rank_misbehaved(uint32_t rank, const std::string& what) override;
    void versions_differ(uint32_t rank, const std::string& what) override;
    void rank_left_early(uint32_t rank) override;
    void rank_aborted(uint32_t rank, int code) override;
    void rank_leaves(uint32_t rank, uint32_t steps) override;
    bool all_ready() override;
    void rank_closed(uint32_t rank) override;

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
    ToldHangs told_hangs_;
    std::optional<uint32_t> asked_by_head_;  // the number of its last question, until it is answered
    std::optional<uint32_t> looks_for_head_; // of the question that the inquiry under way was started for
    std::optional<Callers> callers_;
    Listing listing_;

    bool timed_out_ = false;         // so not even its output may take longer than the grace
    bool asked_for_timeout_ = false; // what ranks wait for, before they are ended
    bool hurried_ = false;           // asked to end again, or with nothing left but to tidy up
    uint32_t live_ = 0;
    Ending ending_ = Ending::kNone;
    std::optional<int> exit_status_; // of the first failure
};

} // namespace gpurun::launcher
