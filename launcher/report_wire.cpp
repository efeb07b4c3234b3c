#include "report_wire.hpp"

#include "node_wire.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::Topic;

namespace {

constexpr size_t kMostSystem = 96;
constexpr int64_t kLatestNs = int64_t{1} << 61; // 73 years: sums and differences of times are numbers, too

// The entries follow.
struct Front {
    uint32_t number = 0;
    uint32_t rank = 0;
    int64_t now_ns = 0;
    int64_t since_ns = 0;
    uint32_t presence = 0;
    uint32_t stopped = 0;
    char system[kMostSystem] = {};
    wait_report::End end;
    uint32_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<Front> && sizeof(Front) == 160);

Entry entry_of(const ThreadReport& thread) {
    Entry entry;
    entry.topic = Topic::kThread;
    entry.flags = (thread.any ? wait_report::kAny : 0) | (thread.has_unread ? wait_report::kUnread : 0);
    entry.call_it(thread.call.c_str());
    entry.since_ns = thread.since_ns;
    entry.thread = thread.id;
    entry.number = thread.number;
    entry.done = thread.moved;
    return entry;
}

template <typename Visit>
void for_each_time(RankReport& report, const Visit& visit) {
    visit(report.since_ns);
    for (ThreadReport& thread : report.threads) {
        visit(thread.since_ns);
        for (Entry& entry : thread.awaited)
            visit(entry.since_ns);
    }
    for (auto* entries : {&report.unawaited, &report.unexpected, &report.held, &report.graphs})
        for (Entry& entry : *entries)
            visit(entry.since_ns);
}

} // namespace

std::string as_message(const ReportOf& of) {
    const RankReport& report = of.report;
    Front front;
    front.number = of.number;
    front.rank = of.rank;
    front.now_ns = of.now_ns;
    front.since_ns = report.since_ns;
    front.presence = static_cast<uint32_t>(report.presence);
    front.stopped = report.stopped ? 1 : 0;
    report.system.copy(front.system, sizeof front.system - 1);
    front.end = report.end;
    std::string text = node_wire::text_of(front);
    for (const ThreadReport& thread : report.threads) {
        text += node_wire::text_of(entry_of(thread));
        for (const Entry& entry : thread.awaited)
            text += node_wire::text_of(entry);
    }
    for (const auto* entries : {&report.unawaited, &report.unexpected, &report.held, &report.graphs})
        for (const Entry& entry : *entries)
            text += node_wire::text_of(entry);
    return text;
}

std::optional<ReportOf> read_report(std::string_view message, uint32_t ranks) {
    const auto front = node_wire::take_front<Front>(message);
    if (!front || front->presence > static_cast<uint32_t>(RankReport::Presence::kEnded) || front->rank >= ranks ||
        front->now_ns < 0 || front->now_ns > kLatestNs)
        return std::nullopt;
    ReportOf of{front->number, front->rank, front->now_ns, {}};
    RankReport& report = of.report;
    report.presence = static_cast<RankReport::Presence>(front->presence);
    report.since_ns = front->since_ns;
    report.stopped = front->stopped != 0;
    report.system.assign(front->system, ::strnlen(front->system, sizeof front->system));
    std::replace_if(
        report.system.begin(), report.system.end(), [](char each) { return each < ' ' || each > '~'; }, '?');
    while (const auto entry = node_wire::take_front<Entry>(message))
        if (!report.answered() || !take(report, *entry, ranks))
            return std::nullopt;
    if (!message.empty() || (report.answered() && !finish(report, front->end)))
        return std::nullopt;
    bool sound = true;
    for_each_time(report, [&](int64_t time_ns) { sound = sound && time_ns >= 0 && time_ns <= kLatestNs; });
    return sound ? std::optional(std::move(of)) : std::nullopt;
}

void shift_times(RankReport& report, int64_t by_ns) {
    for_each_time(report, [&](int64_t& time_ns) {
        if (time_ns != 0)
            time_ns = std::max<int64_t>(time_ns + by_ns, 1);
    });
}

} // namespace gpurun::launcher
