// What the kernel says of a process, and that for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpurun::platform {

struct ProcessStat {
    char letter = 0; // as in /proc: R runs, S and D sleep, T and t are stopped, Z has ended
    int parent = 0;
    uint64_t started = 0; // in ticks since the machine was: tells processes with the same number apart
};
// None if there is no such process any more.
std::optional<ProcessStat> process_stat(int pid);
// 0: that cannot be told.
uint64_t started_at(int pid);
// Whether the process `pid` that was started then (0: nobody knows) is gone, with all its threads. Then it has nothing
// mapped any more, and nothing of it runs on a device.
bool has_ended(int pid, uint64_t started);

struct ProcessState {
    char letter = 0;    // as in ProcessStat; 0: nobody knows
    std::string inside; // the kernel's function that it sleeps in; "" where it does not say

    bool stopped() const { return letter == 'T' || letter == 't'; }
};

// The words it was started with, a space between them; "" if that cannot be told.
std::string command_line(int pid);

// Of its first thread.
ProcessState process_state(int pid);
// "runs", "sleeps in futex_wait_queue", "is stopped".
std::string describe(const ProcessState& state);

} // namespace gpurun::platform
