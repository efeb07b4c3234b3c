// The head of a job on several nodes: the gpurun that the user has started (--hosts). It starts no rank.
//
// It has the nodes' daemons started, one a host (agent.hpp; here as a child of its own), and tells them which ranks are
// theirs. It shows what ranks print, and decides what the end of one means for all: a node only does and tells
// (node_wire.hpp). One thread, one event loop.
#pragma once

#include "agent.hpp"
#include "input.hpp"
#include "node_clock.hpp"
#include "node_inquiry.hpp"
#include "node_link.hpp"
#include "node_wire.hpp"
#include "options.hpp"
#include "outputs.hpp"
#include "platform/signals.hpp"
#include "platform/tcp.hpp"
#include "told_hangs.hpp"
#include "tracing.hpp"
#include "verdict.hpp"

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

class Head {
  public:
    // Where the job runs: on `hosts`, on each of which gpurun is started by `agent`.
    struct Nodes {
        std::vector<Host> hosts;
        AgentCommand agent;
    };
    // `words` is the command line as it was given, `environment` gpurun's own.
    static base::Result<std::unique_ptr<Head>> create(Options options, Nodes nodes, std::vector<std::string> words,
                                                      const char* const* environment);
    Head(const Head&) = delete;

    // Returns gpurun's exit status once every node has said that nothing is left there, and all output has been passed.
    base::Result<int> run();

  private:
    enum class Stage {
        kAwaited, // its agent runs, or waits for its turn
        kSetUp,   // it has called, and knows what is to be run
        kCounted, // it has said how many ranks it would take
        kPlaced,  // it starts its ranks
        kRunning,
        kDone, // nothing of the job is left there
        kLost,
    };
    // What a node's ranks have recorded, on its way to this one (--trace).
    struct Recording {
        NodeClock clock;
        NodeClock::Series series = NodeClock::kStart;
        uint32_t questions = 0; // of the series, that have not been answered
        int64_t asked_ns = 0;   // the last one
        bool ready = false;     // the ranks have ended: it can be asked for
        node_wire::PartOf part; // that was asked for
        bool complete = false;
    };
    struct Node {
        Host host;
        bool here = false; // this machine
        Stage stage = Stage::kAwaited;
        NodeLink* link = nullptr; // of its caller
        std::unique_ptr<Agent> agent;
        std::unique_ptr<platform::Timer> late; // runs while it is awaited, set up or placed
        platform::Watch late_watch;
        uint32_t slots = 0;
        uint16_t port = 0;
        uint32_t first = 0;
        uint32_t count = 0;
        std::string records;               // of its ranks, once they are ready
        std::optional<std::string> report; // what is printed of it
        platform::UniqueFd input;
        int32_t input_window = node_wire::kInputWindow;
        platform::Watch input_watch;
        std::optional<int64_t> clock_ns; // how much more the head's clock shows than the node's, about
        Recording recording;
        bool over() const { return stage == Stage::kDone || stage == Stage::kLost; }
    };
    // Whoever has called; a node once it has shown the key.
    struct Caller : NodeLink::Observer {
        Head* head = nullptr;
        std::optional<uint32_t> node;
        std::unique_ptr<NodeLink> link;
        bool heard(uint32_t kind, std::string_view message) override { return head->hear(*this, kind, message); }
        void link_ended(const std::string& why) override { head->on_hang_up(*this, why); }
    };
    struct Stream {
        platform::UniqueFd pipe; // to the outputs
        std::string unwritten;
        bool ends = false;
        platform::Watch room;
    };
    struct Rank {
        uint32_t node = 0;
        int pid = 0;
        std::string device;
        bool live = true;
        bool said_hello = false;
        bool ready = false;
        bool finalized = false;
        bool failed = false; // and that has been said
        Stream streams[node_wire::kStreams];
    };
    struct Resources {
        std::unique_ptr<platform::EventLoop> loop;
        platform::SignalSource signals;
        platform::Timer timeout;
        platform::Timer grace;
        platform::Timer hang;
        platform::TcpListener listener;
        std::unique_ptr<Outputs> outputs;
        std::unique_ptr<Outputs> early_outputs; // until the ranks were counted
        size_t descriptor_limit = 0;
    };
    Head(Options options, AgentCommand agent, std::vector<std::string> words, const char* const* environment,
         Resources resources);

    // ---- head_start.cpp
    base::Result<void> add_nodes(std::vector<Host> hosts);
    void start_agents();
    void start_agent(Node& node);
    void on_late(const Node& node);
    std::string call_for(uint32_t node) const;
    std::string agent_words(const Node& node) const;
    void on_call();
    bool hear(Caller& caller, uint32_t kind, std::string_view message);
    bool hear_stranger(Caller& caller, uint32_t kind, std::string_view message);
    bool hear_node(uint32_t index, node_wire::Kind kind, std::string_view message);
    std::string setup() const;
    bool take_capacity(Node& node, std::string_view message);
    base::Result<void> place();
    bool take_started(Node& node, std::string_view message);
    bool take_records(Node& node, std::string_view message);
    void cannot_start(int exit_status, const std::string& why);

    // ---- head_streams.cpp
    base::Result<void> connect_outputs();
    bool take_output(Node& node, std::string_view message);
    bool take_output_end(Node& node, std::string_view message);
    void pass(uint32_t rank, uint32_t stream);
    void end_streams(uint32_t rank);
    base::Result<void> connect_input();
    void read_input(Node& node);
    void drop_input(Node& node);
    bool take_input_answer(Node& node, node_wire::Kind kind, std::string_view message);

    // ---- head_reports.cpp
    bool take_report(Node& node, std::string_view message);
    void print_reports();

    // ---- head_hangs.cpp
    base::Result<void> prepare_to_ask();
    void ask_ranks(const std::string& why);
    void give_up_asking(const std::vector<uint32_t>& ranks);
    std::vector<bool> ask_nodes(uint32_t question);
    RankReport look_at(uint32_t rank) const;
    bool take_waits(Node& node, std::string_view message);
    void on_wait_reports(const WaitReports& reports);
    void on_hang_time();

    // ---- head_traces.cpp
    base::Result<void> prepare_to_trace();
    void ask_clock(Node& node, NodeClock::Series series);
    void ask_clock_again(Node& node);
    bool take_clock(Node& node, std::string_view message);
    bool take_recorded(Node& node, std::string_view message);
    void ask_part(Node& node, uint32_t rank, uint64_t offset);
    bool take_part(Node& node, std::string_view message);
    bool fetches_traces() const;
    void write_trace();

    // ---- head.cpp
    void on_hang_up(Caller& caller, const std::string& why);
    void lose(Node& node, const std::string& why);
    bool take_end(Node& node, std::string_view message);
    bool take_failure(Node& node, std::string_view message);
    bool take_versions(Node& node, std::string_view message);
    bool take_join(Node& node, std::string_view message);
    bool take_steps(Node& node, std::string_view message);
    bool take_finalized(Node& node, std::string_view message);
    Rank* rank_of(Node& node, uint32_t rank);
    void fail(uint32_t rank, const Failure& failure, bool whole_job, const std::string& last_words);
    bool anyone_waits() const;
    void on_signal(int signal);
    void on_end_request(int signal);
    void on_timeout();
    void end_for_timeout();
    double timeout_s() const;
    void on_grace_over();
    void end_ranks(int signal);
    void kill_ranks();
    void hurry();
    bool all_over() const;
    uint32_t live() const;
    base::Result<void> pass_output();
    void send(Node& node, node_wire::Kind kind, std::string_view message = {}) const;
    void send_all(node_wire::Kind kind, std::string_view message = {}, const Node* except = nullptr);
    void say(const std::string& text) { has_.outputs->say(text); }

    Options options_;
    AgentCommand agent_;
    std::vector<std::string> words_;
    const char* const* environment_;
    const platform::NodeKey key_ = platform::make_node_key();
    Resources has_;
    std::list<Caller> callers_; // their links refer to them
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::unique_ptr<InputForwarder> input_;
    std::unique_ptr<Tracing> tracing_; // once the ranks are counted; null: nobody has asked for it
    platform::Watch listener_watch_;
    platform::Watch signal_watch_;
    platform::Watch timeout_watch_;
    platform::Watch grace_watch_;
    platform::Watch hang_watch_;
    std::unique_ptr<NodeInquiry> inquiry_; // once the ranks are counted
    std::string hangs_wanted_;             // why a table is to be printed, once nodes have answered
    int hangs_looks_ = 2;                  // of the inquiry under way
    ToldHangs told_hangs_;

    enum class Ending { kNone, kRefused, kTerminated, kKilled };
    Ending ending_ = Ending::kNone;
    bool timed_out_ = false;
    bool cannot_start_ = false; // ranks of some nodes may run all the same, until they are ended
    std::optional<int> exit_status_;
};

// Whether a host's name means this machine.
bool is_this_machine(const std::string& name);

} // namespace gpurun::launcher
