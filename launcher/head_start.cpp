// How a job on several nodes starts: the daemons are started, call, are counted, and get their ranks.
#include "head.hpp"

#include "base/format.hpp"
#include "platform/host_name.hpp"
#include "platform/job_segment.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gpurun/version.h>
#include <nlohmann/json.hpp>

namespace gpurun::launcher {

using nlohmann::json;
using node_wire::Kind;

namespace {

constexpr size_t kMostAgents = 32; // at once
constexpr int64_t kLongestStartMs = 30'000;
// For a node to look for its GPUs, and then for it to start MPS and its ranks: drivers that load may take half of that.
constexpr int64_t kLongestStepMs = 60'000;
constexpr size_t kMostStrangers = 64; // that have called and not shown the key
constexpr size_t kStrangersMessage = 256;
constexpr int kHeadFailed = 1;

std::string quoted(const std::string& word) {
    std::string text = "'";
    for (const char each : word)
        text += each == '\'' ? std::string("'\\''") : std::string(1, each);
    return text + "'";
}

// Not as text, which would have to be UTF-8: arguments and variables may be anything.
std::string as_bytes(const json& message) {
    const std::vector<uint8_t> bytes = json::to_cbor(message);
    return {bytes.begin(), bytes.end()};
}

std::string own_program() {
    std::error_code failed;
    return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

} // namespace

bool is_this_machine(const std::string& name) {
    const std::string own = platform::host_name();
    return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == own ||
           (name.find('.') == std::string::npos && own.substr(0, own.find('.')) == name);
}

base::Result<std::unique_ptr<Head>> Head::create(Options options, Nodes nodes, std::vector<std::string> words,
                                                 const char* const* environment) {
    if (!options.trace.empty())
        GPURUN_TRY(TraceFile::check(options.trace));
    const size_t descriptor_limit = platform::raise_descriptor_limit();
    constexpr std::array kListened = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    constexpr std::array kQuestions = {SIGQUIT};
    GPURUN_ASSIGN(platform::SignalSource signals, platform::SignalSource::create(kListened, kQuestions));
    GPURUN_ASSIGN(auto loop, platform::EventLoop::create());
    GPURUN_ASSIGN(platform::Timer timeout, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer grace, platform::Timer::create());
    GPURUN_ASSIGN(platform::Timer hang, platform::Timer::create());
    GPURUN_ASSIGN(platform::TcpListener listener, platform::TcpListener::create());
    GPURUN_ASSIGN(auto outputs, Outputs::create(*loop, OutputOptions(), 1)); // until the ranks are counted
    std::unique_ptr<Head> head(
        new Head(std::move(options), std::move(nodes.agent), std::move(words), environment,
                 Resources{std::move(loop), std::move(signals), std::move(timeout), std::move(grace), std::move(hang),
                           std::move(listener), std::move(outputs), nullptr, descriptor_limit}));
    GPURUN_TRY(head->add_nodes(std::move(nodes.hosts)));
    return head;
}

Head::Head(Options options, AgentCommand agent, std::vector<std::string> words, const char* const* environment,
           Resources resources)
    : options_(std::move(options)), agent_(std::move(agent)), words_(std::move(words)), environment_(environment),
      has_(std::move(resources)), listener_watch_(*has_.loop, has_.listener.fd.get(), [this] { on_call(); }),
      signal_watch_(*has_.loop, has_.signals.fd(),
                    [this] {
                        while (const std::optional<int> signal = has_.signals.next())
                            on_signal(*signal);
                    }),
      timeout_watch_(*has_.loop, has_.timeout.fd(), [this] { on_timeout(); }),
      grace_watch_(*has_.loop, has_.grace.fd(), [this] { on_grace_over(); }),
      hang_watch_(*has_.loop, has_.hang.fd(), [this] { on_hang_time(); }) {
    for (platform::Watch* watch : {&listener_watch_, &signal_watch_, &timeout_watch_, &grace_watch_, &hang_watch_})
        watch->wait_for(platform::Ready::kReadable);
}

base::Result<void> Head::add_nodes(std::vector<Host> hosts) {
    for (Host& host : hosts) {
        auto node = std::make_unique<Node>();
        node->here = is_this_machine(host.name);
        for (const auto& other : nodes_)
            if (node->here && other->here)
                return base::error(base::Status::kArgument,
                                   "{} and {} are both this machine: name it once, with the "
                                   "number of its ranks",
                                   other->host.name, host.name);
        node->host = std::move(host);
        nodes_.push_back(std::move(node));
    }
    return {};
}

void Head::start_agents() {
    size_t under_way = 0;
    for (const auto& node : nodes_)
        under_way += node->stage == Stage::kAwaited && node->agent != nullptr ? 1 : 0;
    for (const auto& node : nodes_)
        if (ending_ == Ending::kNone && node->stage == Stage::kAwaited && node->agent == nullptr &&
            under_way++ < kMostAgents)
            start_agent(*node);
}

// What the daemon's standard input has. A key is 32 bytes: as numbers, so that no encoding is needed.
std::string Head::call_for(uint32_t node) const {
    json call;
    auto addresses = platform::own_addresses();
    call["addresses"] = addresses ? std::move(*addresses) : std::vector<std::string>();
    call["port"] = has_.listener.port;
    call["node"] = node;
    std::vector<uint8_t> key;
    for (const std::byte each : key_)
        key.push_back(std::to_integer<uint8_t>(each));
    call["key"] = key;
    return call.dump() + "\n";
}

std::string Head::agent_words(const Node& node) const {
    std::string text;
    for (const std::string& word : agent_.words)
        text += word + " ";
    return text + node.host.name;
}

void Head::start_agent(Node& node) {
    std::vector<std::string> words;
    if (node.here) {
        words = {own_program(), "--node-daemon"};
    } else {
        words = agent_.words;
        words.push_back(node.host.name);
        if (!agent_.runs_shell)
            words.insert(words.end(), {"/bin/sh", "-c"});
        words.push_back("exec " + quoted(own_program()) + " --node-daemon");
    }
    const auto index = static_cast<uint32_t>(
        std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) { return each.get() == &node; }) -
        nodes_.begin());
    auto timer = platform::Timer::create();
    auto agent = Agent::start(
        words, call_for(index),
        {*has_.loop, environment_, has_.signals.original_mask(), has_.descriptor_limit,
         [this, &node](std::string_view line) {
             const std::string_view text = line.substr(0, line.find_last_not_of("\r\n") + 1);
             if (!text.empty() && ending_ == Ending::kNone) // then its end is our doing
                 say(base::format("{}: {}", node.host.name, text));
         },
         [this, &node] {
             if (node.stage == Stage::kAwaited)
                 cannot_start(kHeadFailed, base::format("{}: {} {} before gpurun had called from there: check the name "
                                                        "of the host, that one can log in there without a password, "
                                                        "and that it has {}",
                                                        node.host.name, node.here ? "gpurun" : agent_words(node),
                                                        node.agent->describe_end(), own_program()));
         }});
    if (!agent || !timer) {
        cannot_start(kHeadFailed, base::format("{}: the agent cannot be started: {} (--agent names another one)",
                                               node.host.name, agent ? timer.error().detail : agent.error().detail));
        return;
    }
    node.agent = std::move(*agent);
    node.late = std::make_unique<platform::Timer>(std::move(*timer));
    node.late_watch = platform::Watch(*has_.loop, node.late->fd(), [this, &node] {
        if (node.late->acknowledge())
            on_late(node);
    });
    node.late_watch.wait_for(platform::Ready::kReadable);
    node.late->start(kLongestStartMs);
}

void Head::on_late(const Node& node) {
    if (node.stage == Stage::kAwaited)
        cannot_start(
            kHeadFailed,
            base::format("{}: gpurun there has not called within {} s: check that {}no firewall keeps that host "
                         "from port {} here",
                         node.host.name, kLongestStartMs / 1000,
                         node.here ? "" : "'" + agent_words(node) + "' asks for no password, and that ",
                         has_.listener.port));
    else if (node.stage == Stage::kSetUp || node.stage == Stage::kPlaced)
        cannot_start(kHeadFailed,
                     base::format("{}: gpurun there has not {} within {} s: check that nvidia-smi and the file systems "
                                  "of the job answer there",
                                  node.host.name,
                                  node.stage == Stage::kSetUp ? "counted its GPUs" : "started its ranks",
                                  kLongestStepMs / 1000));
}

void Head::on_call() {
    auto called = has_.listener.accept();
    if (!called || !*called)
        return;
    std::erase_if(callers_, [](const Caller& caller) { return !caller.node && !caller.link->open(); });
    const auto strangers = static_cast<size_t>(
        std::count_if(callers_.begin(), callers_.end(), [](const Caller& caller) { return !caller.node; }));
    if (strangers >= kMostStrangers) // the one that has had the most time
        callers_.erase(std::find_if(callers_.begin(), callers_.end(), [](const Caller& each) { return !each.node; }));
    Caller& caller = callers_.emplace_back();
    caller.head = this;
    caller.link = std::make_unique<NodeLink>(*has_.loop, std::move(*called), caller, kStrangersMessage);
}

bool Head::hear(Caller& caller, uint32_t kind, std::string_view message) {
    return caller.node ? hear_node(*caller.node, static_cast<Kind>(kind), message)
                       : hear_stranger(caller, kind, message);
}

bool Head::hear_stranger(Caller& caller, uint32_t kind, std::string_view message) {
    const auto hello = node_wire::message_of<node_wire::Hello>(message);
    if (static_cast<Kind>(kind) != Kind::kHello || !hello || hello->magic != node_wire::kMagic ||
        !same_key(hello->key, key_) || hello->node >= nodes_.size())
        return false;
    Node& node = *nodes_[hello->node];
    if (node.stage != Stage::kAwaited || ending_ != Ending::kNone)
        return false;
    if (!node_wire::is_of_this_build(*hello)) {
        cannot_start(kHeadFailed,
                     base::format("{}: {} there is gpurun {}, and this is another build ({}): install the same on all "
                                  "hosts",
                                  node.host.name, own_program(), node_wire::version_of(*hello), GPURUN_VERSION));
        return false;
    }
    caller.node = hello->node;
    caller.link->take_up_to(NodeLink::kLargest);
    node.link = caller.link.get();
    node.stage = Stage::kSetUp;
    node.late->start(kLongestStepMs);
    send(node, Kind::kSetup, setup());
    start_agents();
    return true;
}

bool Head::hear_node(uint32_t index, Kind kind, std::string_view message) {
    Node& node = *nodes_[index];
    std::string_view rest = message;
    switch (kind) {
    case Kind::kCapacity: return take_capacity(node, message);
    case Kind::kCannot: {
        const auto status = node_wire::take_front<node_wire::Number>(rest);
        if (status)
            cannot_start(status->value, base::format("on {}: {}", node.host.name, rest));
        return status.has_value();
    }
    case Kind::kStarted: return take_started(node, message);
    case Kind::kJoined: return take_join(node, message);
    case Kind::kReady: return take_records(node, message);
    case Kind::kLeaving: return take_steps(node, message);
    case Kind::kFinalized: return take_finalized(node, message);
    case Kind::kEnded: return take_end(node, message);
    case Kind::kFailed: return take_failure(node, message);
    case Kind::kVersions: return take_versions(node, message);
    case Kind::kOutput: return take_output(node, message);
    case Kind::kOutputEnd: return take_output_end(node, message);
    case Kind::kInputTaken:
    case Kind::kInputClosed: return take_input_answer(node, kind, message);
    case Kind::kWaits: return take_waits(node, message);
    case Kind::kReport: return take_report(node, message);
    case Kind::kPong: return take_clock(node, message);
    case Kind::kRecorded: return take_recorded(node, message);
    case Kind::kPart: return take_part(node, message);
    case Kind::kSay: say(base::format("on {}: {}", node.host.name, message)); return true;
    case Kind::kDone:
        if (node.stage != Stage::kLost)
            node.stage = Stage::kDone;
        drop_input(node);
        return true;
    default: return false;
    }
}

std::string Head::setup() const {
    json setup;
    setup["words"] = words_;
    std::vector<std::string> environment;
    for (const char* const* each = environment_; *each != nullptr; ++each)
        environment.emplace_back(*each);
    setup["environment"] = environment;
    std::error_code failed;
    setup["folder"] = std::filesystem::current_path(failed).string();
    const platform::WindowSize size = platform::window_size(platform::kStandardOutput);
    setup["columns"] = size.columns;
    setup["rows"] = size.rows;
    setup["only_on_terminal"] = has_.outputs->only_on_terminal();
    return as_bytes(setup);
}

bool Head::take_capacity(Node& node, std::string_view message) {
    const auto capacity = node_wire::message_of<node_wire::Capacity>(message);
    if (!capacity || node.stage != Stage::kSetUp || capacity->slots > platform::kMaxRanks)
        return false;
    node.stage = Stage::kCounted;
    node.slots = node.host.slots.value_or(capacity->slots);
    node.port = static_cast<uint16_t>(capacity->port);
    if (!std::all_of(nodes_.begin(), nodes_.end(), [](const auto& each) { return each->stage == Stage::kCounted; }))
        return true;
    if (auto placed = place(); !placed)
        cannot_start(exit_status_of(placed.error()), placed.error().detail);
    return true;
}

base::Result<void> Head::place() {
    std::vector<uint32_t> slots;
    for (const auto& node : nodes_)
        slots.push_back(node->slots);
    GPURUN_ASSIGN(const std::vector<uint32_t> filled,
                  fill_hosts(slots, wanted_ranks(options_.programs), options_.placement.oversubscribe));
    std::vector<uint32_t> nodes_of_ranks;
    for (uint32_t index = 0; index < nodes_.size(); ++index) {
        nodes_[index]->first = static_cast<uint32_t>(ranks_.size());
        nodes_[index]->count = filled[index];
        for (uint32_t i = 0; i < filled[index]; ++i) {
            ranks_.push_back(std::make_unique<Rank>());
            ranks_.back()->node = index;
            nodes_of_ranks.push_back(index);
        }
    }
    GPURUN_TRY(check_ranks(options_.output, static_cast<uint32_t>(ranks_.size())));
    if (!options_.report.dry_run) {
        GPURUN_TRY(connect_outputs());
        GPURUN_TRY(prepare_to_trace());
    }
    Node& first = *nodes_[ranks_[0]->node];
    // Where the others have called is where they reach this machine; another one is where it has called from.
    std::string here;
    for (const auto& node : nodes_)
        if (!node->here)
            here = platform::own_address_of(node->link->fd());
    const bool is_called = first.here && !here.empty();
    const std::string master = is_called ? here : platform::peer_address_of(first.link->fd());
    json place;
    place["nodes"] = nodes_of_ranks;
    place["master"] = master;
    place["port"] = first.port;
    for (const auto& node : nodes_) {
        place["address"] = node->here ? here : ""; // else it knows better
        place["host"] = node->host.name;
        place["first"] = node->first;
        place["count"] = node->count;
        node->stage = Stage::kPlaced;
        node->late->start(kLongestStepMs);
        send(*node, Kind::kPlace, as_bytes(place));
    }
    GPURUN_TRY(prepare_to_ask());
    if (options_.report.dry_run) // it is left unread
        return {};
    return connect_input();
}

bool Head::take_started(Node& node, std::string_view message) {
    if (node.stage != Stage::kPlaced || message.size() != node.count * sizeof(node_wire::Started))
        return false;
    node.stage = Stage::kRunning;
    for (uint32_t i = 0; i < node.count; ++i) {
        auto started = *node_wire::take_front<node_wire::Started>(message);
        started.device[sizeof started.device - 1] = '\0';
        ranks_[node.first + i]->pid = started.pid;
        ranks_[node.first + i]->device = started.device;
        if (tracing_ != nullptr)
            tracing_->started(node.first + i, started.pid, base::format("{} on {}", started.device, node.host.name),
                              ranks_[node.first + i]->node);
    }
    return true;
}

// Once all are there, each node gets all.
bool Head::take_records(Node& node, std::string_view message) {
    if (node.stage != Stage::kRunning || !node.records.empty() ||
        message.size() != node.count * sizeof(platform::RankRecord))
        return false;
    node.records = message;
    for (uint32_t i = 0; i < node.count; ++i)
        ranks_[node.first + i]->ready = true;
    std::string all;
    for (const auto& each : nodes_) {
        if (each->records.empty() && each->count > 0)
            return true;
        all += each->records;
    }
    send_all(Kind::kGo, all);
    return true;
}

// The first reason stands for all: others may follow from it.
void Head::cannot_start(int exit_status, const std::string& why) {
    if (ending_ != Ending::kNone)
        return;
    if (!exit_status_)
        exit_status_ = exit_status;
    say(why);
    cannot_start_ = true;
    kill_ranks();
}

} // namespace gpurun::launcher
