// The run itself: gpurun and the references take turns at every task of the plan, and rank 0 says what came out.
//
// Every rank of the job makes one, and calls run() once. A rank without a partner goes through the same barriers.
#pragma once

#include "contender.hpp"
#include "machine.hpp"
#include "report.hpp"

#include <memory>
#include <vector>

namespace gpurun::bench {

class Session {
  public:
    explicit Session(const Options& options);

    void run();

  private:
    struct Entrant {
        const Reference* reference;           // null: gpurun
        bool whole_job;                       // of the job's collectives; else of each pair's messages
        std::unique_ptr<Contender> contender; // null in a rank without a partner
    };

    void add_entrants(bool whole_job);
    std::string why_out(Reference reference, bool whole_job) const;
    void leave_out(Reference reference, const std::string& reason);
    void admit(const Reference& reference, bool whole_job, const Ground& ground);
    void leave_out_idle();
    bool has(const Entrant& entrant, const Task& task) const;
    void turn(Entrant& entrant, const Task& task, int samples, Samples& into);
    Row measure(const Task& task);
    void publish() const;

    Pair pair_;
    std::vector<gpurun_device_info> devices_;
    std::vector<Task> tasks_;
    Compute compute_;
    std::vector<Entrant> entrants_;
    Report report_;
};

} // namespace gpurun::bench
