// What a Job on a node tells the gpurun that the user has started, which decides what it means for the whole job.
//
// Ranks are numbered as on the node, from 0. Everything is called on the event loop's thread.
#pragma once

#include "verdict.hpp"
#include "wait_reports.hpp"

#include <cstdint>
#include <string>

namespace gpurun::launcher {

class Uplink {
  public:
    virtual ~Uplink() = default;

    // All ranks run. Or the job cannot start, and gpurun is to end with this status.
    virtual void ranks_started() = 0;
    virtual void start_failed(int exit_status, const std::string& why) = 0;

    virtual void rank_said_hello(uint32_t rank) = 0;
    // Their records are written. They go once the job is told to release them.
    virtual void ranks_ready() = 0;
    // It has come to so many steps of gpurun_finalize(); then, it has returned from that.
    virtual void rank_leaves(uint32_t rank, uint32_t steps) = 0;
    virtual void rank_finalized(uint32_t rank) = 0;

    // Of every rank, once. `last_words` is the last line of its standard error.
    virtual void rank_ended(uint32_t rank, const RankEnd& end, const std::string& last_words) = 0;
    // It has failed while it runs. `whole_job`: the others are to end, whatever was asked for.
    virtual void rank_failed(uint32_t rank, const Failure& failure, bool whole_job, const std::string& last_words) = 0;
    virtual void versions_differ(uint32_t rank, const std::string& what) = 0;

    // What the head has asked with this number.
    virtual void ranks_wait(uint32_t question, const WaitReports& reports) = 0;
};

} // namespace gpurun::launcher
