#include "wait_reports.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;

namespace {

template <size_t size>
bool is_printable(const char (&text)[size]) {
    const auto end = std::find(std::begin(text), std::end(text), '\0');
    return end != std::end(text) &&
           std::all_of(std::begin(text), end, [](char each) { return each >= ' ' && each <= '~'; });
}

bool is_sound(const wait_report::Entry& entry, uint32_t ranks) {
    return is_printable(entry.name) && is_printable(entry.comm_name) &&
           static_cast<uint32_t>(entry.what) < wait_report::kWhats &&
           static_cast<uint32_t>(entry.state) < wait_report::kStates && entry.flags <= wait_report::kAllFlags &&
           entry.since_ns >= 0 && entry.peer >= wait_report::kAnySource && entry.peer < static_cast<int32_t>(ranks) &&
           entry.tag >= wait_report::kAnyTag;
}

bool keep(std::vector<wait_report::Entry>& list, size_t most, const wait_report::Entry& entry) {
    if (list.size() >= most)
        return false;
    list.push_back(entry);
    return true;
}

} // namespace

std::string words_for_no_message(const ThreadReport& thread) {
    if (!thread.elsewhere.empty())
        return base::format("a rank of another job: gpurun jobs lists the joint job {}", thread.elsewhere);
    if (thread.call == "gpurun_comm_accept" || thread.call == "gpurun_comm_connect")
        return "no message: it looks for another job, or joins it";
    return "no message: it works, or waits for the device or a lock";
}

bool take(RankReport& rank, const wait_report::Entry& entry, uint32_t ranks) {
    if (!is_sound(entry, ranks))
        return false;
    switch (entry.topic) {
    case wait_report::Topic::kThread:
        if (rank.threads.size() >= wait_report::kMostThreads)
            return false;
        rank.threads.push_back({entry.thread,
                                entry.name,
                                entry.since_ns,
                                entry.has(wait_report::kAny),
                                entry.number,
                                {},
                                entry.done,
                                entry.has(wait_report::kUnread),
                                false,
                                entry.comm_name});
        return true;
    case wait_report::Topic::kAwaited:
        return !rank.threads.empty() && rank.threads.back().awaited.size() < rank.threads.back().number &&
               keep(rank.threads.back().awaited, wait_report::kMostAwaited, entry);
    case wait_report::Topic::kUnawaited: return keep(rank.unawaited, wait_report::kMostUnawaited, entry);
    case wait_report::Topic::kUnexpected: return keep(rank.unexpected, wait_report::kMostUnexpected, entry);
    case wait_report::Topic::kHeld: return keep(rank.held, wait_report::kMostHeld, entry);
    case wait_report::Topic::kGraph: return entry.peer >= 0 && keep(rank.graphs, wait_report::kMostGraphs, entry);
    }
    return false;
}

bool finish(RankReport& rank, const wait_report::End& end) {
    rank.end = end;
    rank.presence = RankReport::Presence::kAnswered;
    return static_cast<uint32_t>(end.phase) < wait_report::kPhases && end.flags <= wait_report::kAllFlags &&
           end.threads >= rank.threads.size() && end.unawaited >= rank.unawaited.size() &&
           end.unexpected >= rank.unexpected.size() && end.held >= rank.held.size() && end.graphs >= rank.graphs.size();
}

void settle(RankReport& now, const RankReport& before) {
    for (ThreadReport& thread : now.threads)
        thread.settled =
            thread.waits() && std::any_of(before.threads.begin(), before.threads.end(), [&](const auto& old) {
                return old.id == thread.id && old.since_ns == thread.since_ns && old.waits() &&
                       old.moved == thread.moved && !thread.has_unread;
            });
    // A run waits for each run of the other side once.
    std::copy_if(now.graphs.begin(), now.graphs.end(), std::back_inserter(now.settled_graphs), [&](const auto& entry) {
        return std::any_of(before.graphs.begin(), before.graphs.end(), [&](const auto& old) {
            return old.what == entry.what && old.peer == entry.peer && old.tag == entry.tag && old.all == entry.all;
        });
    });
}

} // namespace gpurun::launcher
