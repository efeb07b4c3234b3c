// The wait reports of a job's ranks, and what gpurun itself knows of each: the hang table is made of them.
//
// What a rank sends is not trusted: take() and finish() refuse what no rank of ours would send, and keep no more than
// the bounds of platform/wait_report.hpp.
#pragma once

#include "platform/wait_report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct ThreadReport {
    uint64_t id = 0;
    std::string call;     // "": in none
    int64_t since_ns = 0; // 0: not known
    bool any = false;     // waits for any of `awaited`, not for all
    uint32_t number = 0;  // of all that it waits for; more than `awaited` has if they were too many
    std::vector<platform::wait_report::Entry> awaited;
    uint64_t moved = 0;      // a count that grows with everything that its rank moves
    bool has_unread = false; // its rank has records that it has not looked at
    bool settled = false;    // it was in the same wait in the report before, and its rank has moved nothing since
    std::string elsewhere;   // the joint job in which it waits; "": in none

    bool waits() const { return !awaited.empty(); }
};

// Of a thread that is in a call, and waits for nothing that its rank knows of.
std::string words_for_no_message(const ThreadReport& thread);

struct RankReport {
    enum class Presence {
        kNoGpurun, // it has not called gpurun_init()
        kJoining,  // in gpurun_init(), before it is ready
        kReady,    // in gpurun_init(), where it waits for others
        kAnswered,
        kNoAnswer,
        kFinalized, // it has returned from gpurun_finalize()
        kEnded,
    };
    Presence presence = Presence::kNoGpurun;
    int64_t since_ns = 0; // in gpurun_init()
    std::string system;   // what the kernel says of one that does not answer: "sleeps in futex_wait"
    bool stopped = false;

    // With kAnswered.
    platform::wait_report::End end;
    std::vector<ThreadReport> threads;
    std::vector<platform::wait_report::Entry> unawaited;
    std::vector<platform::wait_report::Entry> unexpected;
    std::vector<platform::wait_report::Entry> held;
    std::vector<platform::wait_report::Entry> graphs;
    std::vector<platform::wait_report::Entry> settled_graphs; // of `graphs`, those that waited for the same run before

    bool answered() const { return presence == Presence::kAnswered; }
};

using WaitReports = std::vector<RankReport>; // by rank

// Add what a rank has sent to its report. False: no rank of this job sends that.
bool take(RankReport& report, const platform::wait_report::Entry& entry, uint32_t ranks);
bool finish(RankReport& report, const platform::wait_report::End& end);

// Finds what `now` and `before`, two reports of one rank, both wait for: marks such threads, and fills settled_graphs.
void settle(RankReport& now, const RankReport& before);

} // namespace gpurun::launcher
