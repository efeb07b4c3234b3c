// How the clock of a node relates to that of the head: CLOCK_MONOTONIC of either, which begin at different times and do
// not run equally fast.
//
// The head asks the node for its time, several times when the job starts and several times when it has ended. Of each
// series the answer that came soonest counts: its time is known to within half of what the question took. In between
// the difference changes evenly.
#pragma once

#include <array>
#include <cstdint>

namespace gpurun::launcher {

class NodeClock {
  public:
    enum Series { kStart, kEnd };

    // The node's clock showed `node_ns` between these two times of the head's. REQUIRES: sent_ns <= received_ns.
    void add(Series series, int64_t sent_ns, int64_t node_ns, int64_t received_ns);
    // As it is if nothing has been added. Any number may be asked for.
    int64_t to_head_ns(int64_t node_ns) const;
    // At most, while the job ran.
    int64_t error_ns() const;

  private:
    struct Reading {
        int64_t node_ns = 0;
        int64_t ahead_ns = 0;  // how much more the head's clock showed
        int64_t error_ns = -1; // of that, either way; negative: there is none
        bool there() const { return error_ns >= 0; }
    };
    std::array<Reading, 2> best_;
};

} // namespace gpurun::launcher
