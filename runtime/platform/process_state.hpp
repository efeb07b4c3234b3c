// What the kernel says that a process does, for people.
#pragma once

#include <string>

namespace gpurun::platform {

struct ProcessState {
    char letter = 0;    // as in /proc: R runs, S and D sleep, T and t are stopped, Z has ended; 0: nobody knows
    std::string inside; // the kernel's function that it sleeps in; "" where it does not say

    bool stopped() const { return letter == 'T' || letter == 't'; }
};

// Of its first thread.
ProcessState process_state(int pid);
// "runs", "sleeps in futex_wait_queue", "is stopped".
std::string describe(const ProcessState& state);

} // namespace gpurun::platform
