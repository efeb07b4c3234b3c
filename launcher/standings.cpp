#include "standings.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::launcher {

namespace standing = platform::standing;

namespace {

bool is_sound(const standing::Entry& entry, uint32_t ranks) {
    const auto end = std::find(std::begin(entry.name), std::end(entry.name), '\0');
    const bool printable =
        std::all_of(std::begin(entry.name), end, [](char each) { return each >= ' ' && each <= '~'; });
    return end != std::end(entry.name) && printable && static_cast<uint32_t>(entry.what) < standing::kWhats &&
           static_cast<uint32_t>(entry.state) < standing::kStates && entry.flags <= standing::kAllFlags &&
           entry.since_ns >= 0 && entry.peer >= standing::kAnySource && entry.peer < static_cast<int32_t>(ranks) &&
           entry.tag >= standing::kAnyTag;
}

bool keep(std::vector<standing::Entry>& list, size_t most, const standing::Entry& entry) {
    if (list.size() >= most)
        return false;
    list.push_back(entry);
    return true;
}

} // namespace

bool take(RankStanding& rank, const standing::Entry& entry, uint32_t ranks) {
    if (!is_sound(entry, ranks))
        return false;
    switch (entry.topic) {
    case standing::Topic::kThread:
        if (rank.threads.size() >= standing::kMostThreads)
            return false;
        rank.threads.push_back({entry.thread,
                                entry.name,
                                entry.since_ns,
                                entry.has(standing::kAny),
                                entry.number,
                                {},
                                entry.done,
                                entry.has(standing::kNews),
                                false});
        return true;
    case standing::Topic::kAwaited:
        return !rank.threads.empty() && rank.threads.back().awaited.size() < rank.threads.back().number &&
               keep(rank.threads.back().awaited, standing::kMostAwaited, entry);
    case standing::Topic::kUnawaited: return keep(rank.unawaited, standing::kMostUnawaited, entry);
    case standing::Topic::kUnexpected: return keep(rank.unexpected, standing::kMostUnexpected, entry);
    case standing::Topic::kHeld: return keep(rank.held, standing::kMostHeld, entry);
    case standing::Topic::kGraph: return entry.peer >= 0 && keep(rank.graphs, standing::kMostGraphs, entry);
    }
    return false;
}

bool finish(RankStanding& rank, const standing::End& end) {
    rank.end = end;
    rank.presence = RankStanding::Presence::kAnswered;
    return static_cast<uint32_t>(end.phase) < standing::kPhases && end.flags <= standing::kAllFlags &&
           end.threads >= rank.threads.size() && end.unawaited >= rank.unawaited.size() &&
           end.unexpected >= rank.unexpected.size() && end.held >= rank.held.size() && end.graphs >= rank.graphs.size();
}

void settle(RankStanding& now, const RankStanding& before) {
    for (ThreadStanding& thread : now.threads)
        thread.settled =
            thread.waits() && std::any_of(before.threads.begin(), before.threads.end(), [&](const auto& old) {
                return old.id == thread.id && old.since_ns == thread.since_ns && old.waits() &&
                       old.moved == thread.moved && !thread.has_news;
            });
    // A run waits for each run of the other side once.
    std::copy_if(now.graphs.begin(), now.graphs.end(), std::back_inserter(now.settled_graphs), [&](const auto& entry) {
        return std::any_of(before.graphs.begin(), before.graphs.end(), [&](const auto& old) {
            return old.what == entry.what && old.peer == entry.peer && old.tag == entry.tag && old.all == entry.all;
        });
    });
}

} // namespace gpurun::launcher
