// What the ranks of a job wait for: asked when gpurun is told to (SIGQUIT), or now and then (--hang-timeout).
//
// The job goes on. With --hang-timeout a table is printed once for each hang: again only when some wait has begun after
// the last table, and lasted as long.
#include "job.hpp"

#include "base/format.hpp"
#include "hang_table.hpp"
#include "platform/clock.hpp"
#include "platform/process_state.hpp"

#include <algorithm>

namespace gpurun::launcher {

using Presence = RankReport::Presence;

namespace {
constexpr int64_t kLooksPerTimeout = 4;
constexpr int64_t kShortestPauseMs = 20;
} // namespace

void Job::ask_ranks(const std::string& why) {
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
    using Stage = Assembly::Stage;
    const Rank& rank = *ranks_[index];
    RankReport report;
    if (!rank.live) {
        report.presence = Presence::kEnded;
        return report;
    }
    const Stage stage = assembly_.stage(index);
    report.since_ns = assembly_.stage_since_ns(index);
    report.presence = is_finalized(index)       ? Presence::kFinalized
                      : stage == Stage::kSilent ? Presence::kNoGpurun
                      : stage == Stage::kReady  ? Presence::kReady
                      : stage == Stage::kGone   ? Presence::kNoAnswer
                                                : Presence::kJoining;
    // The process that has called gpurun_init() need not be the one that was started.
    const int joined = stage == Stage::kGone ? has_.segment.rank(index).pid : 0;
    const platform::ProcessState state = platform::process_state(joined > 0 ? joined : rank.process.pid());
    report.system = platform::describe(state);
    report.stopped = state.stopped();
    return report;
}

void Job::on_wait_reports(const WaitReports& reports) {
    const int looks = std::exchange(hangs_looks_, 2);
    if (looks == 1 && hangs_wanted_.empty()) {
        if (ending_ == Ending::kNone && hangs_anew(reports))
            hangs_wanted_ =
                base::format("--hang-timeout={}", static_cast<double>(*plan_.ending.hang_timeout_ms) / 1000);
        else
            return;
    }
    if (looks == 1) { // one look does not tell what lasts
        inquiry_->start(2);
        return;
    }
    reported_waits_ = waits_of(reports);
    say(format_hangs(reports, platform::now_ns(), std::exchange(hangs_wanted_, {})));
}

std::vector<Job::Wait> Job::waits_of(const WaitReports& reports) {
    std::vector<Wait> waits;
    for (uint32_t rank = 0; rank < reports.size(); ++rank) {
        const RankReport& report = reports[rank];
        if (report.presence == RankReport::Presence::kReady)
            waits.push_back({rank, 0, report.since_ns});
        for (const ThreadReport& thread : report.threads)
            if (thread.since_ns != 0)
                waits.push_back({rank, thread.id, thread.since_ns});
        for (const platform::wait_report::Entry& entry : report.graphs) {
            const bool sends = entry.what == platform::wait_report::What::kSend;
            const uint64_t name = uint64_t{sends ? 1U : 0U} << 63 | static_cast<uint64_t>(entry.peer) << 32 |
                                  static_cast<uint32_t>(entry.tag);
            waits.push_back({rank, name, entry.since_ns, entry.all});
        }
    }
    return waits;
}

// Whether somebody has waited too long who did not wait when the last table was printed.
bool Job::hangs_anew(const WaitReports& reports) const {
    const int64_t latest_ns = platform::now_ns() - *plan_.ending.hang_timeout_ms * 1'000'000;
    const std::vector<Wait> waits = waits_of(reports);
    return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
        return wait.since_ns <= latest_ns &&
               std::find(reported_waits_.begin(), reported_waits_.end(), wait) == reported_waits_.end();
    });
}

void Job::on_hang_time() {
    has_.hang.acknowledge();
    if (!inquiry_->under_way() && !ranks_.empty() && ending_ == Ending::kNone) {
        hangs_looks_ = 1;
        inquiry_->start(1);
    }
    has_.hang.start(std::max(*plan_.ending.hang_timeout_ms / kLooksPerTimeout, kShortestPauseMs));
}

bool Job::rank_answered(uint32_t rank, const platform::wire::Answer& answer) { return inquiry_->take(rank, answer); }

bool Job::rank_answered_all(uint32_t rank, const platform::wire::Answered& answered) {
    return inquiry_->finish(rank, answered);
}

} // namespace gpurun::launcher
