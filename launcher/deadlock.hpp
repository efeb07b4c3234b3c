// Who waits for whom, and whether that can ever end. Pure functions.
//
// A wait can end only by a call of another rank if its message is not matched yet; a message that is matched goes on by
// itself. A set of ranks is deadlocked if each thread of each of its ranks is in such a wait for a rank of the set: one
// that waits for all of its messages needs one such message, one that waits for any of them must have no other. The
// greatest such set is found by removing ranks that can go on until none is left that can. Only waits that two reports
// have in common count: between the two, all of them lasted at the same time.
#pragma once

#include "wait_reports.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// One rank waits for another.
struct WaitsFor {
    uint32_t rank;
    uint32_t peer;
    std::string call;
    platform::wait_report::Entry entry; // of any source: one of those that it could be
};

// Ranks of which none can ever go on.
struct Deadlock {
    std::vector<WaitsFor> cycle;     // a shortest one; each peer is the next one's rank
    std::vector<uint32_t> followers; // that wait for those, directly or through each other
};
// One for each group of ranks that has nothing to do with the others.
std::vector<Deadlock> find_deadlocks(const WaitReports& ranks);

// A shortest circle of messages of graphs that wait for the other side's run. No deadlock for certain: another stream
// may bring what one of them waits for.
std::vector<WaitsFor> find_graph_circle(const WaitReports& ranks);

// Whether the wait can end only by a call of the peer's program that it has not made.
bool needs_call(const platform::wait_report::Entry& entry);
// "0-2,5"
std::string format_ranks(const std::vector<uint32_t>& ranks);
// A communicator's name, or "#4098"; "" for all ranks of the job.
std::string format_comm(const platform::wait_report::Entry& entry);
// "gpurun_recv, tag 7", "gpurun_barrier of rows"
std::string format_wait(const std::string& call, const platform::wait_report::Entry& entry);

} // namespace gpurun::launcher
