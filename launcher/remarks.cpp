#include "remarks.hpp"

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "deadlock.hpp"

#include <algorithm>
#include <set>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::What;

namespace {

// What a rank does that waits for no other rank.
std::string describe_free(const RankReport& rank) {
    using Presence = RankReport::Presence;
    switch (rank.presence) {
    case Presence::kNoGpurun: return "has not called gpurun_init()";
    case Presence::kJoining:
    case Presence::kReady: return "is in gpurun_init()";
    case Presence::kNoAnswer: return rank.stopped ? "is stopped" : "does not answer";
    case Presence::kFinalized: return "has returned from gpurun_finalize()";
    case Presence::kEnded: return "has ended";
    case Presence::kAnswered: break;
    }
    if (rank.end.phase == wait_report::Phase::kStarting)
        return "is in gpurun_init()";
    for (const ThreadReport& thread : rank.threads)
        if (!thread.call.empty())
            return "is in " + thread.call + "()";
    return "is not in a gpurun call";
}

// Whether it waited all the time between the two reports.
bool waits(const RankReport& rank) {
    return rank.answered() && !rank.threads.empty() &&
           std::all_of(rank.threads.begin(), rank.threads.end(), [](const auto& thread) { return thread.settled; });
}

const char* plural(size_t number) { return number == 1 ? "rank" : "ranks"; }
const char* verb(size_t number) { return number == 1 ? "waits" : "wait"; }

template <typename Visit>
void for_each_needed(const RankReport& rank, const Visit& visit) {
    for (const ThreadReport& thread : rank.threads)
        for (const Entry& entry : thread.awaited)
            if (thread.settled && needs_call(entry))
                visit(thread, entry);
}

// "rank 1 waits for tag 7 from rank 0, and has an unexpected message with tag 8 from rank 0 (48 bytes)"
void remark_unexpected(uint32_t index, const RankReport& rank, std::vector<std::string>& remarks) {
    std::set<const Entry*> told;
    for_each_needed(rank, [&](const ThreadReport&, const Entry& wanted) {
        if (wanted.what != What::kReceive && wanted.what != What::kProbe)
            return;
        const auto near = std::find_if(rank.unexpected.begin(), rank.unexpected.end(), [&](const Entry& there) {
            const bool same_context =
                ((there.flags ^ wanted.flags) & (wait_report::kCollective | wait_report::kCaptured)) == 0;
            const bool same_source = wanted.peer == wait_report::kAnySource || there.peer == wanted.peer;
            const bool same_tag = wanted.tag == wait_report::kAnyTag || there.tag == wanted.tag;
            return same_context && !there.has(wait_report::kCollective) && same_source != same_tag;
        });
        if (near == rank.unexpected.end() || !told.insert(&*near).second)
            return;
        const std::string source =
            wanted.peer == wait_report::kAnySource ? "any rank" : base::format("rank {}", wanted.peer);
        const std::string tag = wanted.tag == wait_report::kAnyTag ? "any tag" : base::format("tag {}", wanted.tag);
        remarks.push_back(base::format("rank {} waits for {} from {}, and has an unexpected message with tag {} from "
                                       "rank {} ({} bytes)",
                                       index, tag, source, near->tag, near->peer, near->bytes));
    });
}

// A call waits for a stream which itself waits for a peer's stream.
void remark_held(uint32_t index, const RankReport& rank, std::vector<std::string>& remarks) {
    for (const ThreadReport& thread : rank.threads)
        for (const Entry& wanted : thread.awaited)
            for (const Entry& held : rank.held) {
                if (!thread.settled || wanted.what != What::kStream || wanted.bytes != held.bytes)
                    continue;
                remarks.push_back(
                    base::format("rank {} waits for its stream {:#x}, in which a message {} rank {} waits "
                                 "until that rank's stream reaches the {}",
                                 index, held.bytes, held.what == What::kSend ? "to" : "from", held.peer,
                                 held.what == What::kSend ? "receive" : "send"));
                break;
            }
}

void remark_graphs(const WaitReports& ranks, std::vector<std::string>& remarks) {
    std::string text;
    for (const WaitsFor& each : find_graph_circle(ranks)) {
        const Entry& entry = each.entry;
        text += text.empty() ? "messages of graphs wait for each other: " : ", ";
        text += base::format("rank {}'s {} rank {}", each.rank, entry.what == What::kSend ? "to" : "from", each.peer);
        text += entry.has(wait_report::kCollective)
                    ? base::format(" (of a {}, run {})", base::collective_name(entry.tag), entry.all)
                    : base::format(" (tag {}, run {})", entry.tag, entry.all);
    }
    if (!text.empty())
        remarks.push_back(std::move(text));
}

// A collective that some have called, and others not.
void remark_collectives(const WaitReports& ranks, std::vector<std::string>& remarks) {
    for (const char* const collective : base::kCollectiveNames) {
        const std::string name = std::string("gpurun_") + collective;
        std::vector<uint32_t> inside;
        for (uint32_t rank = 0; rank < ranks.size(); ++rank)
            if (std::any_of(ranks[rank].threads.begin(), ranks[rank].threads.end(),
                            [&](const auto& thread) { return thread.call == name && thread.settled; }))
                inside.push_back(rank);
        if (inside.empty() || inside.size() == ranks.size())
            continue;
        std::string others;
        size_t told = 0;
        for (uint32_t rank = 0; rank < ranks.size() && told < 3; ++rank) {
            if (std::find(inside.begin(), inside.end(), rank) != inside.end())
                continue;
            others += told++ == 0 ? "" : ", ";
            others += waits(ranks[rank]) ? base::format("rank {} waits in {}()", rank, ranks[rank].threads[0].call)
                                         : base::format("rank {} {}", rank, describe_free(ranks[rank]));
        }
        const size_t left = ranks.size() - inside.size() - told;
        if (left > 0)
            others += base::format(", and {} more", left);
        remarks.push_back(base::format("{}: {} {} {} in it; {}", name, plural(inside.size()), format_ranks(inside),
                                       inside.size() == 1 ? "waits" : "wait", others));
    }
}

// The ranks that wait for nobody, and that others wait for, directly or through each other.
void remark_roots(const WaitReports& ranks, std::vector<std::string>& remarks) {
    std::vector<std::vector<uint32_t>> waited_for_by(ranks.size());
    // If a thread waits for any of several, it counts as waiting for the only rank that can still do something.
    const bool one_is_free =
        std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return !waits(rank); }) == 1;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        for_each_needed(ranks[rank], [&](const ThreadReport& thread, const Entry& entry) {
            for (uint32_t peer = 0; peer < ranks.size(); ++peer) {
                const bool sure = !thread.any && entry.peer >= 0;
                const bool meant =
                    entry.peer == wait_report::kAnySource ? peer != rank : peer == static_cast<uint32_t>(entry.peer);
                if (meant && (sure || one_is_free))
                    waited_for_by[peer].push_back(rank);
            }
        });
    for (uint32_t root = 0; root < ranks.size(); ++root) {
        if (waits(ranks[root]) || waited_for_by[root].empty())
            continue;
        std::set<uint32_t> all;
        std::vector<uint32_t> queue{root};
        for (size_t next = 0; next < queue.size(); ++next)
            for (const uint32_t rank : waited_for_by[queue[next]])
                if (rank != root && all.insert(rank).second)
                    queue.push_back(rank);
        if (all.empty())
            continue;
        const std::vector<uint32_t> list(all.begin(), all.end());
        const bool indirect = std::set<uint32_t>(waited_for_by[root].begin(), waited_for_by[root].end()) != all;
        remarks.push_back(base::format("{} {} {}{} for rank {}, which {}", plural(list.size()), format_ranks(list),
                                       verb(list.size()), indirect ? ", directly or through others," : "", root,
                                       describe_free(ranks[root])));
    }
}

// A rank that is in gpurun_finalize() will make no other call: who waits for one waits in vain.
void remark_leavers(uint32_t index, const WaitReports& ranks, std::vector<std::string>& remarks) {
    std::set<int32_t> told;
    for_each_needed(ranks[index], [&](const ThreadReport& thread, const Entry& entry) {
        if (entry.what == What::kRank || entry.peer < 0 || !told.insert(entry.peer).second)
            return;
        const RankReport& peer = ranks[static_cast<size_t>(entry.peer)];
        const bool left = peer.presence == RankReport::Presence::kFinalized ||
                          (peer.answered() && peer.end.phase == wait_report::Phase::kFinalizing);
        if (left)
            remarks.push_back(base::format(
                "rank {} waits for rank {} ({}), which has called gpurun_finalize() and will "
                "not {}",
                index, entry.peer, format_wait(thread.call, entry), entry.what == What::kSend ? "receive" : "send"));
    });
}

} // namespace

std::vector<std::string> find_remarks(const WaitReports& ranks) {
    std::vector<std::string> remarks;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        remark_unexpected(rank, ranks[rank], remarks);
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        remark_held(rank, ranks[rank], remarks);
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        remark_leavers(rank, ranks, remarks);
    remark_graphs(ranks, remarks);
    remark_collectives(ranks, remarks);
    remark_roots(ranks, remarks);
    return remarks;
}

} // namespace gpurun::launcher
