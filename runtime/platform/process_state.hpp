// What the kernel says of a process, and that for people.
#pragma once

#include <optional>
#include <string>

namespace gpurun::platform {

struct ProcessStat {
    char letter = 0; // as in /proc: R runs, S and D sleep, T and t are stopped, Z has ended
    int parent = 0;
};
// None if there is no such process any more.
std::optional<ProcessStat> process_stat(int pid);

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
