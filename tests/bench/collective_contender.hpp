// The turn of whoever makes collectives: gpurun, or NCCL. In each rank of the job, made by all at once.
//
// A sample is a batch of calls by all ranks, timed in each rank from where all have met. The slowest rank counts, for
// the time of a call and for what the host spends in one. One thread.
#pragma once

#include "collective.hpp"
#include "contender.hpp"

namespace gpurun::bench {

class CollectiveContender : public Contender {
  public:
    void turn(const Task& task, int samples, Samples& into) final;

  protected:
    explicit CollectiveContender(const Pair& job) : job_(job) {}

    // Around what is timed.
    virtual void before(const Task&) {}
    virtual void after(const Task&) {}
    // The calls of a sample: enqueued, or made.
    virtual void run(const Task& task) = 0;
    virtual void wait(const Task& task) = 0;

    int rank() const { return job_.rank(); }
    int ranks() const { return job_.size(); }
    bool is_root() const { return rank() == kRoot; }

    const Pair job_;

  private:
    void sample(const Task& task, Samples& into);
};

} // namespace gpurun::bench
