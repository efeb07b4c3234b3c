// Who this rank is: ranks 0-1, 2-3, ... are pairs that measure at once. The even rank leads its pair: it takes the
// times. The last of an odd number of ranks has no partner and only waits.
//
// What the ranks of a pair tell each other here goes by host order, on a tag of its own, and is not inside of what is
// timed, but for go().
#pragma once

#include <cstddef>

namespace gpurun::bench {

class Pair {
  public:
    Pair(int rank, int size) : rank_(rank), size_(size) {}
    static Pair of_this_rank();

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool leads() const { return rank_ % 2 == 0; }
    int partner() const { return rank_ ^ 1; }
    bool alone() const { return partner() >= size_; }

    // All ranks of the job.
    void meet_all() const;
    // Both ranks of the pair make each of these calls.
    void exchange(const void* mine, void* theirs, size_t bytes) const;
    void meet() const;
    double larger(double mine) const;
    // One rank makes the first of these, the other one the second.
    void go() const;
    void await_go() const;

  private:
    int rank_;
    int size_;
};

} // namespace gpurun::bench
