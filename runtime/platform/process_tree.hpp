// Ending a process with all that it has started, whichever process groups that has made for itself.
//
// What a daemon starts need not stay in its group, so its parents say who belongs to it (/proc). Used where the
// launcher, or the guard of a launcher that was killed, ends what is not in a rank's group.
#pragma once

#include <cstdint>
#include <vector>

namespace gpurun::platform {

std::vector<int> all_processes();

// Children of the calling process's first thread, which is also the one that adopts; also those that have ended.
std::vector<int> children_of_this();

// Children of `pid`, their children, and so on; without `spared`, and those below them.
std::vector<int> descendants(int pid, const std::vector<int>& spared = {});

// Kills `pid`, its group and its descendants. Returns whom it has killed.
// REQUIRES: `pid` has not been reaped, so that the number still is its own.
std::vector<int> kill_tree(int pid);

// Waits until all have ended, however long they are zombies. False if that takes longer.
bool wait_for_ends(const std::vector<int>& pids, int64_t limit_ms);

} // namespace gpurun::platform
