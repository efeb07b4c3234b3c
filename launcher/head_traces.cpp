// --trace on several nodes: the head asks each node for its clock, and, once its ranks have ended, for what they have
// recorded. Then it writes the file as gpurun does on one node.
#include "head.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"

#include <algorithm>

namespace gpurun::launcher {

using node_wire::Kind;

namespace {
constexpr uint32_t kQuestions = 16; // of a series, one after the other
} // namespace

base::Result<void> Head::prepare_to_trace() {
    if (options_.trace.empty())
        return {};
    GPURUN_ASSIGN(const TraceLimits limits, TraceLimits::from_settings());
    GPURUN_ASSIGN(tracing_, Tracing::create(options_.trace, static_cast<uint32_t>(ranks_.size()), limits));
    for (const auto& node : nodes_)
        ask_clock(*node, NodeClock::kStart);
    return {};
}

// A node on this machine has the same clock.
void Head::ask_clock(Node& node, NodeClock::Series series) {
    node.recording.series = series;
    node.recording.questions = node.here || node.count == 0 ? 0 : kQuestions;
    ask_clock_again(node);
}

void Head::ask_clock_again(Node& node) {
    if (node.recording.questions > 0) {
        node.recording.asked_ns = platform::now_ns();
        send(node, Kind::kPing, node_wire::text_of(node_wire::Time{node.recording.asked_ns}));
    } else if (node.recording.series == NodeClock::kEnd) {
        ask_part(node, node.first, 0);
    }
}

bool Head::take_clock(Node& node, std::string_view message) {
    const auto pong = node_wire::message_of<node_wire::Pong>(message);
    // The last answer of a series can come when the next one has begun.
    if (pong && node.recording.questions > 0 && pong->asked.ns == node.recording.asked_ns) {
        node.recording.clock.add(node.recording.series, node.recording.asked_ns, pong->now.ns, platform::now_ns());
        --node.recording.questions;
        ask_clock_again(node);
    }
    return pong.has_value();
}

bool Head::take_recorded(Node& node, std::string_view message) {
    if (node.stage != Stage::kRunning || tracing_ == nullptr || node.recording.ready ||
        message.size() != node.count * sizeof(node_wire::Time))
        return false;
    node.recording.ready = true;
    for (uint32_t rank = node.first; rank < node.first + node.count; ++rank)
        tracing_->ended_at(rank, node_wire::take_front<node_wire::Time>(message)->ns);
    if (std::all_of(nodes_.begin(), nodes_.end(),
                    [](const auto& each) { return each->recording.ready || each->count == 0; }))
        has_.timeout.stop(); // it is the ranks' time that was limited
    ask_clock(node, NodeClock::kEnd);
    return true;
}

void Head::ask_part(Node& node, uint32_t rank, uint64_t offset) {
    node.recording.part = {rank, 0, offset};
    if (rank < node.first + node.count) {
        send(node, Kind::kPartWanted, node_wire::text_of(node.recording.part));
        return;
    }
    node.recording.complete = true;
    tracing_->nodes_off_by(node.recording.clock.error_ns());
    send(node, Kind::kPartsTaken);
}

bool Head::take_part(Node& node, std::string_view message) {
    const auto of = node_wire::take_front<node_wire::PartOf>(message);
    if (!of || !node.recording.ready || node.recording.complete || node.recording.questions > 0 ||
        of->rank != node.recording.part.rank)
        return false;
    platform::TraceBuffer& buffer = tracing_->buffer(of->rank);
    if (!message.empty()) {
        if (of->offset < node.recording.part.offset || !buffer.put({of->offset, message}))
            return false;
        ask_part(node, of->rank, of->offset + message.size());
        return true;
    }
    const auto to_head_ns = [&](int64_t node_ns) { return node.recording.clock.to_head_ns(node_ns); };
    buffer.convert_times(to_head_ns);
    tracing_->ended_at(of->rank, to_head_ns(tracing_->ended_ns(of->rank)));
    ask_part(node, of->rank + 1, 0);
    return true;
}

bool Head::fetches_traces() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
        return node->recording.ready && !node->recording.complete && !node->over();
    });
}

void Head::write_trace() {
    if (tracing_ == nullptr || cannot_start_)
        return;
    for (const auto& node : nodes_)
        if (node->count > 0 && !node->recording.complete)
            say(base::format("--trace {}: what ranks did on {} is missing: {}", options_.trace, node->host.name,
                             node->recording.ready ? "gpurun was asked to end" : "the host was lost"));
    if (const std::string line = tracing_->write(has_.signals, exit_status_); !line.empty())
        say(line);
}

} // namespace gpurun::launcher
