#include "remarks.hpp"

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "deadlock.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

std::string in_comm(const Entry& entry) {
    return " in " + (entry.comm == 0 ? std::string("GPURUN_COMM_WORLD") : format_comm(entry));
}

// One of source, tag and communicator is not what is wanted.
bool nearly_fits(const Entry& wanted, const Entry& there) {
    const bool same_kind = ((there.flags ^ wanted.flags) & (wait_report::kCollective | wait_report::kCaptured)) == 0;
    const bool same_comm = wanted.comm == there.comm;
    const bool same_source = wanted.peer == wait_report::kAnySource || there.peer == wanted.peer;
    const bool same_tag = wanted.tag == wait_report::kAnyTag || there.tag == wanted.tag;
    return same_kind && !there.has(wait_report::kCollective) &&
           (same_comm ? same_source != same_tag : same_source && same_tag);
}

// "rank 1 waits for tag 7 from rank 0, and has an unexpected message with tag 8 from rank 0 (48 bytes)"
void remark_unexpected(uint32_t index, const RankReport& rank, std::vector<std::string>& remarks) {
    std::set<const Entry*> told;
    for_each_needed(rank, [&](const ThreadReport&, const Entry& wanted) {
        if (wanted.what != What::kReceive && wanted.what != What::kProbe)
            return;
        const auto near = std::find_if(rank.unexpected.begin(), rank.unexpected.end(),
                                       [&](const Entry& there) { return nearly_fits(wanted, there); });
        if (near == rank.unexpected.end() || !told.insert(&*near).second)
            return;
        const std::string source =
            wanted.peer == wait_report::kAnySource ? "any rank" : base::format("rank {}", wanted.peer);
        const std::string tag = wanted.tag == wait_report::kAnyTag ? "any tag" : base::format("tag {}", wanted.tag);
        const bool same_comm = wanted.comm == near->comm;
        remarks.push_back(base::format("rank {} waits for {} from {}{}, and has an unexpected message with tag {} from "
                                       "rank {}{} ({} bytes)",
                                       index, tag, source, same_comm ? "" : in_comm(wanted), near->tag, near->peer,
                                       same_comm ? "" : in_comm(*near), near->bytes));
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

// Ranks that wait in one collective of one communicator.
struct Inside {
    std::string comm; // its name, unless it has all ranks
    std::vector<uint32_t> ranks;
    std::set<uint32_t> awaited; // those that they wait for: members, too
};
using Collectives = std::map<std::pair<std::string, uint32_t>, Inside>; // by call and communicator

bool is_collective(const std::string& call) {
    const auto is_it = [&](const char* name) { return call == std::string("gpurun_") + name; };
    return std::any_of(base::kCollectiveNames.begin(), base::kCollectiveNames.end(), is_it) ||
           std::any_of(base::kNewCommCalls.begin(), base::kNewCommCalls.end(), is_it);
}

Collectives find_collectives(const WaitReports& ranks) {
    Collectives found;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        for (const ThreadReport& thread : ranks[rank].threads) {
            if (!thread.settled || !is_collective(thread.call))
                continue;
            const auto message = std::find_if(thread.awaited.begin(), thread.awaited.end(),
                                              [](const Entry& each) { return each.has(wait_report::kCollective); });
            const bool known = message != thread.awaited.end();
            Inside& inside = found[{thread.call, known ? message->comm : 0}];
            inside.comm = known ? format_comm(*message) : "";
            if (inside.ranks.empty() || inside.ranks.back() != rank)
                inside.ranks.push_back(rank);
            for (const Entry& each : thread.awaited)
                if (each.peer >= 0)
                    inside.awaited.insert(static_cast<uint32_t>(each.peer));
        }
    return found;
}

// A collective that some have called, and others not. Of a communicator of some ranks its members are not known, but
// those are that the others wait for.
void remark_collectives(const WaitReports& ranks, std::vector<std::string>& remarks) {
    for (const auto& [key, inside] : find_collectives(ranks)) {
        const bool of_all = key.second == 0 && key.first != "gpurun_comm_create_group";
        std::string others;
        size_t missing = 0;
        for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
            const bool is_in = std::find(inside.ranks.begin(), inside.ranks.end(), rank) != inside.ranks.end();
            if (is_in || !(of_all || inside.awaited.contains(rank)) || ++missing > 3)
                continue;
            others += missing == 1 ? "" : ", ";
            others += waits(ranks[rank]) ? base::format("rank {} waits in {}()", rank, ranks[rank].threads[0].call)
                                         : base::format("rank {} {}", rank, describe_free(ranks[rank]));
        }
        if (missing == 0)
            continue;
        if (missing > 3)
            others += base::format(", and {} more", missing - 3);
        remarks.push_back(base::format("{}{}: {} {} {} in it; {}", key.first,
                                       inside.comm.empty() ? "" : " of " + inside.comm, plural(inside.ranks.size()),
                                       format_ranks(inside.ranks), verb(inside.ranks.size()), others));
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
                // Who is in a communicator of some ranks is not known.
                const bool meant = entry.peer == wait_report::kAnySource ? peer != rank && entry.comm == 0
                                                                         : peer == static_cast<uint32_t>(entry.peer);
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
