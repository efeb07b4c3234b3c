// The communicator in which one thread of a program makes its calls in an epoch: that of all ranks, a duplicate that is
// always there, or a new one with the ranks in another order, which is freed once the last call is made. Programs name
// ranks of the job, so ranks are translated on the way in and back.
#pragma once

#include "support/job.hpp"

namespace gpurun::stress {

class Route {
  public:
    // A thread's. All ranks make those of all threads in the same order.
    Route() {
        REQUIRE_OK(gpurun_comm_dup(test::kWorld, &own_));
        REQUIRE_OK(gpurun_comm_dup(test::kWorld, &exchanges_));
    }
    ~Route() {
        (void)gpurun_comm_free(&exchanges_);
        (void)gpurun_comm_free(&own_);
    }
    Route(const Route&) = delete;
    Route& operator=(const Route&) = delete;

    // The choice is the same on all ranks.
    void begin(uint64_t choice) {
        kind_ = static_cast<Kind>(choice % kKinds);
        shift_ = static_cast<int>(choice / kKinds % static_cast<uint64_t>(test::size()));
        if (kind_ == kNew)
            REQUIRE_OK(gpurun_comm_split(own_, 0, to(test::rank()), &new_));
    }
    void end() {
        if (kind_ == kNew)
            REQUIRE_OK(gpurun_comm_free(&new_));
    }
    gpurun_comm comm() const { return kind_ == kWorld ? test::kWorld : kind_ == kOwn ? own_ : new_; }
    // For collectives: of this thread's choice, if no other one makes some there.
    gpurun_comm comm_for_all(bool own, bool alone) const { return own || (kind_ == kWorld && !alone) ? own_ : comm(); }
    // For exchanges, whose messages no wildcard may take. Has the job's ranks in their order.
    gpurun_comm comm_for_exchanges() const { return exchanges_; }
    // Reversed, and turned. Wildcards stay.
    int to(int rank) const { return turn(rank); }
    int from(int source) const { return turn(source); }

  private:
    enum Kind { kWorld, kOwn, kNew, kKinds };

    int turn(int rank) const { // its own inverse
        if (kind_ != kNew || rank < 0)
            return rank;
        return (2 * test::size() - 1 - rank - shift_) % test::size();
    }

    gpurun_comm own_ = GPURUN_COMM_NULL, exchanges_ = GPURUN_COMM_NULL, new_ = GPURUN_COMM_NULL;
    Kind kind_ = kWorld;
    int shift_ = 0;
};

} // namespace gpurun::stress
