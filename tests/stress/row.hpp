// A row of a program on one rank: collectives that are called one directly after the other, several times.
#pragma once

#include "stress/joint.hpp"
#include "stress/random.hpp"

#include <deque>
#include <vector>

namespace gpurun::stress {

class RowCall {
  public:
    RowCall(const Row& row, gpurun_comm comm);

    // All turns: starts in `start`, completes into `end`. Each rank does so in ways of its own.
    void run(gpurun_stream start, gpurun_stream end, Place& place);
    // Once every stream has come to its end.
    void check() const;

  private:
    enum class Form { kBlocking, kGroup, kRequests, kStartall };

    void run_turn(Form form, gpurun_stream start, gpurun_stream end, Place& place);
    void start_requests(Form form, gpurun_stream order);
    void complete_requests(Form form, gpurun_stream order, Place& place);
    JointCall& call(size_t index) { return calls_[first_ + index]; }

    const Row& row_;
    Random random_;               // of this rank
    std::deque<JointCall> calls_; // by turn
    size_t first_ = 0;            // of the turn
    std::vector<gpurun_request> requests_;
};

} // namespace gpurun::stress
