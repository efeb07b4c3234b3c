// Who waits for whom, and whether that can ever end. Pure functions.
//
// A rank is taken to go on unless all its threads wait, and each waits for what only ranks can give that do not go on
// either: for all of its messages (one such is enough), or for any of them (all must be such). What is matched already
// goes on by itself. The greatest set of ranks of which that is true is deadlocked. Only waits that were seen twice
// count: between the two looks, all of them held at the same time.
#pragma once

#include "standings.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// One rank waits for another.
struct WaitsFor {
    uint32_t rank;
    uint32_t peer;
    std::string call;
    platform::standing::Entry entry; // of any source: one of those that it could be
};

// Ranks of which none can ever go on.
struct Deadlock {
    std::vector<WaitsFor> cycle;     // a shortest one; each peer is the next one's rank
    std::vector<uint32_t> followers; // that wait for those, directly or through each other
};
// Those that have nothing to do with each other, each once.
std::vector<Deadlock> find_deadlocks(const Standings& ranks);

// A shortest circle of messages of graphs that wait for the other side's run. No deadlock for certain: another stream
// may bring what one of them waits for.
std::vector<WaitsFor> find_graph_circle(const Standings& ranks);

// Whether only the peer's program can make it come, by a call that it has not made.
bool needs_call(const platform::standing::Entry& entry);
// "0-2,5"
std::string format_ranks(const std::vector<uint32_t>& ranks);
// "gpurun_recv, tag 7"
std::string format_wait(const std::string& call, const platform::standing::Entry& entry);

} // namespace gpurun::launcher
