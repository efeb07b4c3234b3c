// What the ranks of all nodes wait for: asked when gpurun is told to (SIGQUIT), now and then (--hang-timeout), and when
// its time is over (--timeout). The nodes ask their ranks; the table and what is certain are made here, over all ranks.
#include "head.hpp"

#include "base/format.hpp"
#include "hang_table.hpp"
#include "platform/clock.hpp"
#include "report_wire.hpp"

#include <algorithm>

namespace gpurun::launcher {

using node_wire::Kind;

namespace {
constexpr int64_t kShortestPauseMs = 100;
} // namespace

base::Result<void> Head::prepare_to_ask() {
    GPURUN_ASSIGN(inquiry_, NodeInquiry::create({*has_.loop, [this](uint32_t question) { return ask_nodes(question); },
                                                 [this](uint32_t rank) { return look_at(rank); },
                                                 [this](const WaitReports& reports) { on_wait_reports(reports); }},
                                                static_cast<uint32_t>(ranks_.size())));
    if (options_.ending.hang_timeout_ms)
        on_hang_time();
    return {};
}

void Head::give_up_asking(const std::vector<uint32_t>& ranks) {
    for (const uint32_t rank : ranks)
        if (inquiry_ != nullptr)
            inquiry_->give_up(rank);
}

void Head::ask_ranks(const std::string& why) {
    if (all_over())
        return;
    if (inquiry_ == nullptr) {
        say(base::format("{}: no rank has started yet", why));
        return;
    }
    hangs_wanted_ = why;
    if (!inquiry_->under_way())
        inquiry_->start(2);
}

std::vector<bool> Head::ask_nodes(uint32_t question) {
    std::vector<bool> awaited(ranks_.size());
    for (const auto& node : nodes_) {
        if (node->stage != Stage::kRunning || node->recording.ready)
            continue;
        send(*node, Kind::kAsk, node_wire::text_of(node_wire::Number{static_cast<int32_t>(question)}));
        for (uint32_t rank = node->first; rank < node->first + node->count; ++rank)
            awaited[rank] = ranks_[rank]->live;
    }
    return awaited;
}

RankReport Head::look_at(uint32_t rank) const {
    const Node& node = *nodes_[ranks_[rank]->node];
    RankReport report;
    report.presence = !ranks_[rank]->live             ? RankReport::Presence::kEnded
                      : node.stage == Stage::kRunning ? RankReport::Presence::kNoAnswer
                                                      : RankReport::Presence::kNoGpurun;
    report.system = node.stage == Stage::kRunning ? "neither does gpurun on " + node.host.name
                                                  : "gpurun on " + node.host.name + " is to start it";
    return report;
}

bool Head::take_waits(Node& node, std::string_view message) {
    std::optional<ReportOf> of = read_report(message, static_cast<uint32_t>(ranks_.size()));
    if (!of || rank_of(node, of->rank) == nullptr || inquiry_ == nullptr)
        return false;
    if (!node.clock_ns) // and kept, because what began at the same time has to look so in every report
        node.clock_ns = platform::now_ns() - of->now_ns;
    shift_times(of->report, *node.clock_ns);
    inquiry_->take(of->rank, of->number, std::move(of->report));
    return true;
}

void Head::on_wait_reports(const WaitReports& reports) {
    const int looks = std::exchange(hangs_looks_, 2);
    if (looks == 1 && hangs_wanted_.empty()) {
        const int64_t timeout_ms = *options_.ending.hang_timeout_ms;
        if (ending_ != Ending::kNone || !told_hangs_.any_new(reports, platform::now_ns() - timeout_ms * 1'000'000))
            return;
        hangs_wanted_ = base::format("--hang-timeout={}", static_cast<double>(timeout_ms) / 1000);
    }
    if (looks == 1) { // one look does not tell what lasts
        inquiry_->start(2);
        return;
    }
    if (timed_out_ && live() == 0) // they have ended meanwhile
        return;
    told_hangs_.note(reports);
    say(format_hangs(reports, platform::now_ns(), std::exchange(hangs_wanted_, {})));
    if (timed_out_ && ending_ < Ending::kTerminated)
        end_for_timeout();
}

void Head::on_hang_time() {
    has_.hang.acknowledge();
    if (!inquiry_->under_way() && ending_ == Ending::kNone) {
        hangs_looks_ = 1;
        inquiry_->start(1);
    }
    has_.hang.start(std::max(*options_.ending.hang_timeout_ms / kLooksPerTimeout, kShortestPauseMs));
}

} // namespace gpurun::launcher
