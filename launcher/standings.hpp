// How the ranks of a job stand, as they say and as gpurun sees it: what the hang table is made of.
//
// What a rank says is not trusted: take() and finish() refuse what no rank of ours would say, and keep no more than the
// bounds of platform/standing.hpp.
#pragma once

#include "platform/standing.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct ThreadStanding {
    uint64_t id = 0;
    std::string call;     // "": in none
    int64_t since_ns = 0; // 0: not known
    bool any = false;     // one of those awaited is enough
    uint32_t number = 0;  // of those awaited; more than there are here if they were too many
    std::vector<platform::standing::Entry> awaited;
    uint64_t moved = 0;    // by its rank so far
    bool has_news = false; // which its rank has not looked at
    bool settled = false;  // it was in the same wait when it was asked before, and nothing has moved since

    bool waits() const { return !awaited.empty(); }
};

struct RankStanding {
    enum class Presence {
        kNoGpurun, // it has not called gpurun_init()
        kJoining,  // in gpurun_init(), before it is ready
        kReady,    // in gpurun_init(), where it waits for others
        kAnswered,
        kNoAnswer,
        kFinalized, // it has left gpurun_finalize()
        kEnded,
    };
    Presence presence = Presence::kNoGpurun;
    int64_t since_ns = 0; // in gpurun_init()
    std::string system;   // what the kernel says of one that does not answer: "sleeps in futex_wait"
    bool stopped = false;

    // With kAnswered.
    platform::standing::End end;
    std::vector<ThreadStanding> threads;
    std::vector<platform::standing::Entry> unawaited;
    std::vector<platform::standing::Entry> unexpected;
    std::vector<platform::standing::Entry> held;
    std::vector<platform::standing::Entry> graphs;
    std::vector<platform::standing::Entry> settled_graphs; // those that waited for the same run before

    bool answered() const { return presence == Presence::kAnswered; }
};

using Standings = std::vector<RankStanding>; // by rank

// The answer of one rank, as it comes. False: not what a rank of this job says.
bool take(RankStanding& standing, const platform::standing::Entry& entry, uint32_t ranks);
bool finish(RankStanding& standing, const platform::standing::End& end);

// Marks the threads that were in the same wait before, and tells which messages of graphs were.
void settle(RankStanding& now, const RankStanding& before);

} // namespace gpurun::launcher
