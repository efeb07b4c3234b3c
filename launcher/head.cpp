// What the head decides while ranks run, and how their job ends.
#include "head.hpp"

#include "base/format.hpp"
#include "summary.hpp"

#include <algorithm>

namespace gpurun::launcher {

using node_wire::Kind;

namespace {
constexpr int kHeadTimedOut = 124; // as timeout(1) has it
constexpr int kLostNode = 1;
constexpr int64_t kBeyondGraceMs = 3000; // that a node may take for more than the grace, before it is given up
constexpr int64_t kDaemonsEndMs = 2000;  // that daemons may take, once all is done
} // namespace

base::Result<int> Head::run() {
    if (options_.ending.timeout_ms)
        has_.timeout.start(*options_.ending.timeout_ms);
    start_agents();
    while (!all_over())
        GPURUN_TRY(has_.loop->run_once());
    hang_watch_.stop();
    inquiry_.reset();
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
        end_streams(rank);
    GPURUN_TRY(pass_output());
    callers_.clear(); // the daemons end
    bool waited = false;
    platform::Watch waiting(*has_.loop, has_.grace.fd(), [&] { waited = true; });
    grace_watch_.stop();
    waiting.wait_for(platform::Ready::kReadable);
    has_.grace.start(ending_ == Ending::kKilled ? kDaemonsEndMs / 2 : kDaemonsEndMs);
    while (!waited && std::any_of(nodes_.begin(), nodes_.end(),
                                  [](const auto& node) { return node->agent != nullptr && node->agent->live(); }))
        GPURUN_TRY(has_.loop->run_once());
    write_trace();
    nodes_.clear();
    GPURUN_TRY(pass_output());
    return exit_status_.value_or(has_.outputs->failed() ? kLostNode : 0);
}

base::Result<void> Head::pass_output() {
    while (!has_.outputs->passed() || (has_.early_outputs != nullptr && !has_.early_outputs->passed()))
        GPURUN_TRY(has_.loop->run_once());
    return {};
}

bool Head::all_over() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->over(); });
}

uint32_t Head::live() const {
    return static_cast<uint32_t>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->live; }));
}

void Head::send(Node& node, Kind kind, std::string_view message) const {
    if (node.link != nullptr && !node.over())
        node.link->send(static_cast<uint32_t>(kind), message);
}

void Head::send_all(Kind kind, std::string_view message, const Node* except) {
    for (const auto& node : nodes_)
        if (node.get() != except && (node->stage == Stage::kPlaced || node->stage == Stage::kRunning))
            send(*node, kind, message);
}

Head::Rank* Head::rank_of(Node& node, uint32_t rank) {
    return rank >= node.first && rank - node.first < node.count ? ranks_[rank].get() : nullptr;
}

void Head::on_hang_up(Caller& caller, const std::string& why) {
    if (caller.node)
        lose(*nodes_[*caller.node], why);
}

void Head::lose(Node& node, const std::string& why) {
    node.link = nullptr;
    if (node.over())
        return;
    const bool expected = ending_ == Ending::kKilled;
    node.stage = Stage::kLost;
    drop_input(node);
    std::vector<uint32_t> lost;
    for (uint32_t rank = node.first; rank < node.first + node.count; ++rank)
        if (ranks_[rank]->live) {
            ranks_[rank]->live = false;
            end_streams(rank);
            lost.push_back(rank);
        }
    give_up_asking(lost);
    if (expected)
        return;
    for (const uint32_t rank : lost)
        send_all(Kind::kDead, node_wire::text_of(node_wire::OfRank{rank}));
    if (!exit_status_)
        exit_status_ = kLostNode;
    const bool ends_job = !options_.ending.keep_going || ranks_.empty(); // without it they cannot be counted
    say(base::format("lost {}{}{}: its gpurun was killed, or the host or the network is down{}", node.host.name,
                     why.empty() ? "" : " (", why.empty() ? "" : why + ")",
                     live() == 0 ? ""
                     : ends_job  ? "; the other ranks were ended"
                                 : "; the other ranks go on"));
    if (ends_job)
        end_ranks(SIGTERM);
    else if (!lost.empty())
        send_all(Kind::kRefuse,
                 node_wire::text_of(node_wire::Number{static_cast<int32_t>(base::Status::kPeerLost)},
                                    base::format("{} was lost before every rank had joined", node.host.name)));
}

bool Head::take_join(Node& node, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::OfRank>(message);
    Rank* const rank = of ? rank_of(node, of->rank) : nullptr;
    if (rank == nullptr)
        return false;
    rank->said_hello = true;
    // Ranks that ended well without gpurun make a job that can never start, now that one wants to.
    for (uint32_t other = 0; other < ranks_.size() && ending_ == Ending::kNone; ++other)
        if (!ranks_[other]->live && !ranks_[other]->said_hello)
            fail(other, Failure{1, "exited without gpurun_init(), in which other ranks wait for it"}, false, "");
    return true;
}

bool Head::take_steps(Node& node, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::Leaving>(message);
    const bool is_its = of && rank_of(node, of->rank) != nullptr;
    if (is_its)
        send_all(Kind::kLeaving, message, &node);
    return is_its;
}

bool Head::take_finalized(Node& node, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::OfRank>(message);
    Rank* const rank = of ? rank_of(node, of->rank) : nullptr;
    if (rank == nullptr)
        return false;
    rank->finalized = true;
    send_all(Kind::kFinalized, message, &node);
    return true;
}

bool Head::anyone_waits() const {
    const bool all_ready = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->ready; });
    return !all_ready &&
           std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->live && rank->said_hello; });
}

bool Head::take_end(Node& node, std::string_view message) {
    const auto ended = node_wire::take_front<node_wire::Ended>(message);
    Rank* const rank = ended ? rank_of(node, ended->rank) : nullptr;
    if (rank == nullptr || !rank->live)
        return false;
    rank->live = false;
    rank->said_hello = rank->said_hello || ended->said_hello != 0;
    const RankEnd end{{ended->by_signal != 0, ended->value}, rank->said_hello, ended->finalized != 0, anyone_waits()};
    // A rank that ends because the job is being ended has not failed; one that has failed before is known.
    if (const auto failure = judge(end); failure && ending_ == Ending::kNone && !rank->failed)
        fail(ended->rank, *failure, false, std::string(message));
    give_up_asking({ended->rank});
    return true;
}

bool Head::take_failure(Node& node, std::string_view message) {
    const auto failed = node_wire::take_front<node_wire::Failed>(message);
    if (!failed || rank_of(node, failed->rank) == nullptr || failed->what_bytes > message.size())
        return false;
    if (ending_ < Ending::kTerminated)
        fail(failed->rank, Failure{failed->exit_status, std::string(message.substr(0, failed->what_bytes))},
             failed->whole_job != 0, std::string(message.substr(failed->what_bytes)));
    return true;
}

// Every rank gets to know, and the time to say so itself.
bool Head::take_versions(Node& node, std::string_view message) {
    const auto of = node_wire::take_front<node_wire::OfRank>(message);
    Rank* const rank = of ? rank_of(node, of->rank) : nullptr;
    if (rank == nullptr)
        return false;
    send_all(Kind::kRefuse,
             node_wire::text_of(node_wire::Number{static_cast<int32_t>(base::Status::kVersion)}, message));
    if (ending_ != Ending::kNone)
        return true;
    exit_status_ = 1;
    say(base::format("rank {} (pid {} on {}) cannot join: {}", of->rank, rank->pid, node.host.name, message));
    ending_ = Ending::kRefused;
    has_.grace.start(options_.ending.grace_ms);
    return true;
}

void Head::fail(uint32_t number, const Failure& failure, bool whole_job, const std::string& last_words) {
    Rank& rank = *ranks_[number];
    Node& node = *nodes_[rank.node];
    rank.failed = true;
    if (whole_job)
        end_ranks(SIGTERM);
    send_all(Kind::kDead, node_wire::text_of(node_wire::OfRank{number}), &node);
    const bool ends_job = whole_job || !options_.ending.keep_going;
    if (!exit_status_)
        exit_status_ = failure.exit_status;
    has_.outputs->pump(number);
    const Others others = live() == (rank.live ? 1u : 0u) ? Others::kNone : ends_job ? Others::kEnded : Others::kGoOn;
    if (failure.exit_status != 128 + SIGPIPE || !has_.outputs->reader_gone())
        say(summarize({number, rank.pid, base::format("{} on {}", rank.device, node.host.name), failure.what,
                       worth_repeating(number, last_words, options_.output)},
                      others));
    if (ends_job)
        end_ranks(SIGTERM);
    else
        send_all(Kind::kRefuse,
                 node_wire::text_of(node_wire::Number{static_cast<int32_t>(base::Status::kPeerLost)},
                                    base::format("rank {} {} before every rank had joined", number, failure.what)));
}

void Head::on_signal(int signal) {
    switch (signal) {
    case SIGUSR1:
    case SIGUSR2: send_all(Kind::kSignal, node_wire::text_of(node_wire::Number{signal})); break;
    case SIGTSTP:
        send_all(Kind::kStop);
        has_.signals.take_default(SIGTSTP);
        send_all(Kind::kContinue);
        break;
    case SIGCONT:
        send_all(Kind::kContinue);
        if (input_ != nullptr)
            input_->look_again();
        break;
    case SIGQUIT: ask_ranks("SIGQUIT"); break;
    default: on_end_request(signal); break;
    }
}

void Head::on_end_request(int signal) {
    if (!exit_status_)
        exit_status_ = 128 + signal;
    if (ending_ >= Ending::kTerminated || live() == 0) { // asked twice, or nothing runs yet
        hurry();
        return;
    }
    say(base::format("got signal {} ({}); all ranks were ended", signal, platform::describe_signal(signal)));
    end_ranks(signal);
}

double Head::timeout_s() const { return static_cast<double>(*options_.ending.timeout_ms) / 1000; }

// A job that takes too long often hangs: what its ranks wait for is told first.
void Head::on_timeout() {
    has_.timeout.acknowledge();
    timed_out_ = true;
    if (ending_ >= Ending::kTerminated) {
        if (live() == 0 || ending_ == Ending::kKilled)
            hurry();
        return;
    }
    if (!exit_status_)
        exit_status_ = kHeadTimedOut;
    const bool anyone_joined =
        std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->live && rank->said_hello; });
    if (anyone_joined && !options_.ending.hang_timeout_ms)
        ask_ranks(base::format("--timeout={}", timeout_s())); // which goes on in on_wait_reports()
    else
        end_for_timeout();
}

void Head::end_for_timeout() {
    say(base::format("the time of --timeout={} is over; the job was ended", timeout_s()));
    if (live() > 0)
        end_ranks(SIGTERM);
    else
        hurry();
}

// The nodes kill what does not end within the grace. One that does not even do that is given up.
void Head::on_grace_over() {
    if (!has_.grace.acknowledge())
        return;
    if (ending_ == Ending::kRefused) {
        end_ranks(SIGTERM);
        return;
    }
    if (timed_out_ && fetches_traces()) {
        has_.grace.start(kBeyondGraceMs);
    } else if (timed_out_) {
        send_all(Kind::kKill);
        has_.outputs->close();
    }
    // One whose ranks have ended waits for who reads what they have printed, as gpurun does on one node.
    const auto has_live = [this](const Node& node) {
        return std::any_of(ranks_.begin(), ranks_.end(),
                           [&](const auto& rank) { return rank->live && nodes_[rank->node].get() == &node; });
    };
    for (const auto& node : nodes_)
        if (!node->over() && (ending_ == Ending::kKilled || has_live(*node))) {
            ending_ = Ending::kKilled;
            say(base::format("{} does not answer, and is given up", node->host.name));
            lose(*node, "");
        }
}

void Head::end_ranks(int signal) {
    if (ending_ >= Ending::kTerminated)
        return;
    ending_ = Ending::kTerminated;
    if (ranks_.empty()) {
        kill_ranks();
        return;
    }
    send_all(Kind::kEnd, node_wire::text_of(node_wire::Number{signal}));
    has_.grace.start(options_.ending.grace_ms + kBeyondGraceMs);
}

// Those that have not called are not waited for: their agents end with this.
void Head::kill_ranks() {
    ending_ = Ending::kKilled;
    for (const auto& node : nodes_) {
        send(*node, Kind::kKill);
        if (node->stage == Stage::kAwaited)
            node->stage = Stage::kLost;
    }
    has_.grace.start(kBeyondGraceMs);
}

// Does not wait for anything any more.
void Head::hurry() {
    kill_ranks();
    has_.outputs->close();
}

} // namespace gpurun::launcher
