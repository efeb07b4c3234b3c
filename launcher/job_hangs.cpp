// What the ranks of a job wait for: asked when gpurun is told to (SIGQUIT), or now and then (--hang-timeout).
//
// The job goes on. With --hang-timeout a table is printed once for each hang: again only when some wait has begun after
// the last table, and lasted as long.
#include "job.hpp"

#include "base/format.hpp"
#include "hang_table.hpp"
#include "platform/clock.hpp"
#include "rank_look.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace {
constexpr int64_t kShortestLookMs = 20;
} // namespace

void Job::ask_ranks(const std::string& why) {
    if (has_.uplink != nullptr) // a table of one node's ranks could not say whom they wait for
        return;
    if (ranks_.empty()) {
        say(base::format("{}: no rank has started yet", why));
        return;
    }
    hangs_wanted_ = why;
    if (!inquiry_->under_way())
        inquiry_->start(2);
}

// Without asking it.
RankReport Job::look_at(uint32_t index) const {
    const Rank& rank = *ranks_[index];
    return launcher::look_at(assembly_, has_.segment, {index, number(index), rank.live, rank.process.pid()});
}

void Job::on_wait_reports(const WaitReports& reports) {
    const int looks = std::exchange(hangs_looks_, 2);
    listing_.answer(reports);
    if (has_.uplink != nullptr) {
        look_for_head(reports);
        return;
    }
    if (looks == 1 && hangs_wanted_.empty()) {
        if (plan_.ending.hang_timeout_ms && ending_ == Ending::kNone && hangs_anew(reports))
            hangs_wanted_ =
                base::format("--hang-timeout={}", static_cast<double>(*plan_.ending.hang_timeout_ms) / 1000);
        else
            return;
    }
    if (looks == 1) { // one look does not tell what lasts
        inquiry_->start(2);
        return;
    }
    if (timed_out_ && live_ == 0) // they have ended meanwhile
        return;
    told_hangs_.note(reports);
    say(format_hangs(reports, platform::now_ns(), std::exchange(hangs_wanted_, {})));
    if (timed_out_ && ending_ < Ending::kTerminated)
        end_for_timeout();
}

// Whether somebody has waited too long who did not wait when the last table was printed.
bool Job::hangs_anew(const WaitReports& reports) const {
    return told_hangs_.any_new(reports, platform::now_ns() - *plan_.ending.hang_timeout_ms * 1'000'000);
}

void Job::on_hang_time() {
    has_.hang.acknowledge();
    if (!inquiry_->under_way() && !ranks_.empty() && ending_ == Ending::kNone) {
        hangs_looks_ = 1;
        inquiry_->start(1);
    }
    has_.hang.start(std::max(*plan_.ending.hang_timeout_ms / kLooksPerTimeout, kShortestLookMs));
}

bool Job::rank_answered(uint32_t rank, const platform::wire::Answer& answer) { return inquiry_->take(rank, answer); }

bool Job::rank_answered_all(uint32_t rank, const platform::wire::Answered& answered) {
    return inquiry_->finish(rank, answered);
}

} // namespace gpurun::launcher
