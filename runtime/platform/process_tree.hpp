// Ending a process with all its descendants, in whatever process groups they are.
//
// What a daemon starts need not stay in its group, so descendants are found by their parents (/proc). For processes
// that are not in a rank's group; used by the launcher, and by the guard of a launcher that was killed.
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

// How long what was killed may take to end; more means that the kernel itself waits for something.
inline constexpr int64_t kKilledEndMs = 5000;

// Waits until all have ended, however long they are zombies. False if that takes longer.
bool wait_for_ends(const std::vector<int>& pids, int64_t limit_ms);

} // namespace gpurun::platform
