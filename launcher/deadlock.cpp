#include "deadlock.hpp"

#include "base/format.hpp"
#include "cpu_list.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::State;
using wait_report::What;

namespace {

using Set = std::vector<bool>; // by rank

bool is_stuck(const Entry& entry, const Set& stuck) {
    if (!needs_call(entry))
        return false;
    if (entry.peer == wait_report::kAnySource)
        return std::all_of(stuck.begin(), stuck.end(), [](bool each) { return each; });
    return stuck[static_cast<size_t>(entry.peer)];
}

bool is_stuck(const ThreadReport& thread, const Set& stuck) {
    if (!thread.settled)
        return false;
    const auto each_stuck = [&](const Entry& entry) { return is_stuck(entry, stuck); };
    if (!thread.any)
        return std::any_of(thread.awaited.begin(), thread.awaited.end(), each_stuck);
    return thread.number == thread.awaited.size() &&
           std::all_of(thread.awaited.begin(), thread.awaited.end(), each_stuck);
}

bool is_stuck(const RankReport& rank, const Set& stuck) {
    return rank.answered() && !rank.threads.empty() && rank.end.threads == rank.threads.size() &&
           std::all_of(rank.threads.begin(), rank.threads.end(),
                       [&](const ThreadReport& thread) { return is_stuck(thread, stuck); });
}

Set find_stuck(const WaitReports& ranks) {
    Set stuck(ranks.size(), true);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t rank = 0; rank < ranks.size(); ++rank)
            if (stuck[rank] && !is_stuck(ranks[rank], stuck)) {
                stuck[rank] = false;
                changed = true;
            }
    }
    return stuck;
}

// Those that it waits for among the stuck ones, each once.
std::vector<WaitsFor> edges_of(uint32_t rank, const WaitReports& ranks, const Set& stuck) {
    std::vector<WaitsFor> edges;
    std::set<uint32_t> seen;
    const auto add = [&](const ThreadReport& thread, const Entry& entry, uint32_t peer) {
        if (stuck[peer] && seen.insert(peer).second)
            edges.push_back({rank, peer, thread.call, entry});
    };
    for (const ThreadReport& thread : ranks[rank].threads)
        for (const Entry& entry : thread.awaited) {
            if (!is_stuck(entry, stuck))
                continue;
            if (entry.peer != wait_report::kAnySource)
                add(thread, entry, static_cast<uint32_t>(entry.peer));
            else
                for (uint32_t peer = 0; peer < ranks.size(); ++peer)
                    if (peer != rank)
                        add(thread, entry, peer);
        }
    return edges;
}

// A shortest way from `start` back to it; none if there is none.
std::vector<WaitsFor> shortest_cycle(uint32_t start, const std::vector<std::vector<WaitsFor>>& edges) {
    std::vector<std::optional<WaitsFor>> reached_by(edges.size());
    std::vector<uint32_t> queue{start};
    for (size_t next = 0; next < queue.size() && !reached_by[start]; ++next)
        for (const WaitsFor& edge : edges[queue[next]])
            if (!reached_by[edge.peer]) {
                reached_by[edge.peer] = edge;
                queue.push_back(edge.peer);
            }
    std::vector<WaitsFor> cycle;
    for (uint32_t rank = start; reached_by[start];) {
        cycle.insert(cycle.begin(), *reached_by[rank]);
        rank = reached_by[rank]->rank;
        if (rank == start)
            break;
    }
    return cycle;
}

// Takes them out of `left`.
void find_followers(const std::vector<std::vector<WaitsFor>>& edges, Set& left, Deadlock& deadlock) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t rank = 0; rank < edges.size(); ++rank) {
            const auto is_there = [&](const WaitsFor& edge) {
                const auto in_cycle = [&](const WaitsFor& each) { return each.rank == edge.peer; };
                const std::vector<uint32_t>& others = deadlock.followers;
                return std::any_of(deadlock.cycle.begin(), deadlock.cycle.end(), in_cycle) ||
                       std::find(others.begin(), others.end(), edge.peer) != others.end();
            };
            if (!left[rank] || std::none_of(edges[rank].begin(), edges[rank].end(), is_there))
                continue;
            deadlock.followers.push_back(rank);
            left[rank] = false;
            changed = true;
        }
    }
    std::sort(deadlock.followers.begin(), deadlock.followers.end());
}

} // namespace

bool needs_call(const Entry& entry) {
    if (entry.has(wait_report::kHeldBack))
        return false;
    return (entry.what == What::kRank && !entry.has(wait_report::kLoan)) || entry.state == State::kLent ||
           (entry.state == State::kUnmatched && entry.what != What::kNothing);
}

std::string format_ranks(const std::vector<uint32_t>& ranks) { return format_cpus({ranks.begin(), ranks.end()}); }

std::string format_comm(const Entry& entry) {
    if (entry.comm == 0)
        return "";
    return entry.comm_name[0] != '\0' ? entry.comm_name : base::format("#{}", entry.comm);
}

std::string format_wait(const std::string& call, const Entry& entry) {
    std::string text = call.empty() ? "a thread of gpurun's" : call;
    if (entry.comm != 0)
        text += " of " + format_comm(entry);
    if (entry.has(wait_report::kCollective) || entry.what == What::kRank)
        return text;
    if (entry.tag == wait_report::kAnyTag)
        text += ", any tag";
    else
        text += base::format(", tag {}", entry.tag);
    return text + (entry.peer == wait_report::kAnySource ? ", any source" : "");
}

std::vector<Deadlock> find_deadlocks(const WaitReports& ranks) {
    Set stuck = find_stuck(ranks);
    std::vector<std::vector<WaitsFor>> edges(ranks.size());
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        if (stuck[rank])
            edges[rank] = edges_of(rank, ranks, stuck);
    std::vector<Deadlock> all;
    while (true) {
        Deadlock found;
        for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
            std::vector<WaitsFor> cycle = stuck[rank] ? shortest_cycle(rank, edges) : std::vector<WaitsFor>();
            if (!cycle.empty() && (found.cycle.empty() || cycle.size() < found.cycle.size()))
                found.cycle = std::move(cycle);
        }
        if (found.cycle.empty())
            return all;
        for (const WaitsFor& each : found.cycle)
            stuck[each.rank] = false;
        find_followers(edges, stuck, found);
        all.push_back(std::move(found));
    }
}

std::vector<WaitsFor> find_graph_circle(const WaitReports& ranks) {
    std::vector<std::vector<WaitsFor>> edges(ranks.size());
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
        for (const Entry& entry : ranks[rank].settled_graphs)
            edges[rank].push_back({rank, static_cast<uint32_t>(entry.peer), "", entry});
    std::vector<WaitsFor> shortest;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
        std::vector<WaitsFor> circle = shortest_cycle(rank, edges);
        if (!circle.empty() && (shortest.empty() || circle.size() < shortest.size()))
            shortest = std::move(circle);
    }
    return shortest;
}

} // namespace gpurun::launcher
