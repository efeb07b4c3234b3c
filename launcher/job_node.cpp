// What a Job does as a part of one of several nodes: what its head tells it, and what it tells its head besides ends.
#include "job.hpp"

#include <algorithm>

namespace gpurun::launcher {

bool Job::all_ready() {
    if (has_.uplink == nullptr)
        return true;
    has_.uplink->ranks_ready();
    return false;
}

void Job::release() { assembly_.release(); }

// If it fails, there is no memory to be had, and the ranks that wait for this one are ended by the head's timeout.
void Job::mark_dead(uint32_t rank) { static_cast<void>(has_.segment.mark_dead(rank)); }

void Job::mark_finalized(uint32_t rank) { has_.segment.mark_finalized(rank); }

void Job::tell_steps(uint32_t rank, uint32_t steps) { has_.segment.tell_steps(rank, steps); }

void Job::rank_leaves(uint32_t index, uint32_t steps) {
    if (has_.uplink != nullptr)
        has_.uplink->rank_leaves(index, steps);
}

// A rank closes its socket at its end, and in gpurun_finalize().
void Job::rank_closed(uint32_t index) {
    if (has_.uplink != nullptr && has_.segment.has_finalized(number(index)))
        has_.uplink->rank_finalized(index);
}

void Job::tell_waits(uint32_t question) {
    asked_by_head_ = question;
    if (!inquiry_->under_way())
        look_for_head({});
}

// An inquiry has ended. One that was under way when the head asked may have looked before that: then there is another.
void Job::look_for_head(const WaitReports& reports) {
    if (looks_for_head_ && looks_for_head_ == asked_by_head_) {
        has_.uplink->ranks_wait(*asked_by_head_, reports);
        asked_by_head_.reset();
    }
    looks_for_head_ = asked_by_head_;
    if (looks_for_head_)
        inquiry_->start(1);
}

void Job::signal_each(int signal) {
    for (const auto& rank : ranks_)
        rank->process.signal(signal);
}

void Job::lose_head(int64_t grace_ms) {
    plan_.ending.grace_ms = std::min(plan_.ending.grace_ms, grace_ms);
    has_.outputs->close();
    if (ending_ >= Ending::kTerminated)
        has_.grace.start(plan_.ending.grace_ms);
    else if (live_ > 0)
        end_ranks(SIGTERM);
    else
        hurry();
}

} // namespace gpurun::launcher
