#include "job_listing.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using Presence = RankReport::Presence;

namespace {

constexpr size_t kMostWaits = 4; // of a rank: the hang table has more

int64_t ms_since(int64_t since_ns, int64_t now_ns) {
    return since_ns == 0 ? -1 : std::max<int64_t>(now_ns - since_ns, 0) / 1'000'000;
}

std::string state_of(const RankReport& report) {
    switch (report.presence) {
    case Presence::kNoGpurun: return report.stopped ? "stopped" : "before gpurun_init";
    case Presence::kJoining:
    case Presence::kReady: return "in gpurun_init";
    case Presence::kNoAnswer: return report.stopped ? "stopped" : "does not answer";
    case Presence::kFinalized: return "after gpurun_finalize";
    case Presence::kEnded: return "ended";
    case Presence::kAnswered: break;
    }
    const auto is_in_call = [](const ThreadReport& thread) { return !thread.call.empty() || thread.waits(); };
    const auto waits = [](const ThreadReport& thread) { return thread.waits(); };
    if (std::any_of(report.threads.begin(), report.threads.end(), waits))
        return "waits";
    return std::any_of(report.threads.begin(), report.threads.end(), is_in_call) ? "in a call" : "outside gpurun";
}

class Waits {
  public:
    Waits(ListedRank& rank, int64_t now_ns) : rank_(rank), now_ns_(now_ns) {}

    void add(const std::string& call, int64_t since_ns, const EntryWords& words, const std::string& what) {
        if (rank_.waits.size() < kMostWaits)
            rank_.waits.push_back({call, ms_since(since_ns, now_ns_), words, what});
        else
            ++rank_.more_waits;
    }
    void add(const std::string& call, int64_t since_ns, const std::string& what) {
        add(call, since_ns, {"-", "-", "-", "-", "-", "-"}, what);
    }
    void add(const ThreadReport& thread) {
        if (thread.awaited.empty() && !thread.call.empty())
            add(thread.call, thread.since_ns, words_for_no_message(thread));
        for (const Entry& entry : thread.awaited)
            add(thread.call, thread.since_ns, words_of(entry), cause(entry, now_ns_));
        rank_.more_waits += thread.number - static_cast<uint32_t>(thread.awaited.size());
    }
    void add_held(const Entry& entry) {
        add(base::format("stream {:#x}", entry.bytes), 0,
            base::format("rank {}'s stream: {}", entry.peer, describe_edge(entry)));
    }
    void add_graph(const Entry& entry) { add("a graph", entry.since_ns, words_of(entry), cause(entry, now_ns_)); }

  private:
    ListedRank& rank_;
    int64_t now_ns_;
};

void add_loans(ListedRank& rank, const std::vector<Entry>& entries, int64_t now_ns) {
    for (const Entry& entry : entries) {
        if (!entry.has(wait_report::kLoan) || entry.what != wait_report::What::kSend)
            continue;
        const EntryWords words = words_of(entry);
        rank.loans.push_back({words.bytes, words.peer, words.tag, words.communicator,
                              entry.state == wait_report::State::kLent,
                              std::max<int64_t>(ms_since(entry.since_ns, now_ns), 0)});
    }
}

} // namespace

ListedRank listed(const RankReport& report, int64_t now_ns) {
    ListedRank rank;
    rank.state = state_of(report);
    Waits waits(rank, now_ns);
    if (report.presence == Presence::kReady)
        waits.add("gpurun_init", report.since_ns, "the other ranks to call gpurun_init()");
    if (!report.answered())
        return rank;
    for (const ThreadReport& thread : report.threads) {
        waits.add(thread);
        add_loans(rank, thread.awaited, now_ns);
    }
    for (const Entry& entry : report.held)
        waits.add_held(entry);
    for (const Entry& entry : report.graphs)
        waits.add_graph(entry);
    rank.more_waits += report.end.held - static_cast<uint32_t>(report.held.size()) + report.end.graphs -
                       static_cast<uint32_t>(report.graphs.size());
    add_loans(rank, report.unawaited, now_ns);
    rank.more_requests = report.end.unawaited - static_cast<uint32_t>(report.unawaited.size());
    return rank;
}

} // namespace gpurun::launcher
