// What a job does while its ranks run, and how it ends.
#include "job.hpp"

#include "base/format.hpp"
#include "summary.hpp"

namespace gpurun::launcher {

namespace {
// How long a rank that has left gpurun_init() may take to end before the job is ended for it.
constexpr int64_t kDepartureMs = 1000;
} // namespace

void Job::on_rank_end(uint32_t index) {
    Rank& rank = *ranks_[index];
    const std::optional<platform::ProcessEnd> process_end = rank.process.end();
    if (!process_end)
        return;
    rank.ended.stop();
    rank.live = false;
    --live_;
    if (terminal_ != nullptr && plan_.debugger->rank == index)
        terminal_->take_back();
    if (has_.tracing != nullptr)
        has_.tracing->ended(index);
    if (input_ != nullptr)
        input_->disconnect(index);
    assembly_.hear(index);
    inquiry_->rank_ended(index);
    const RankEnd end{*process_end, assembly_.said_hello(index), has_.segment.has_finalized(number(index)),
                      assembly_.anyone_waits()};
    const auto failure = judge(end);
    if (has_.uplink != nullptr) {
        if (failure)
            mark_dead(number(index));
        has_.outputs->pump(index);
        has_.uplink->rank_ended(index, end, has_.outputs->last_error_line(index));
        return;
    }
    // A rank that ends because the job is being ended has not failed.
    if (failure && ending_ == Ending::kNone)
        fail(index, *failure, false);
}

void Job::fail(uint32_t index, const Failure& failure, bool whole_job) {
    const Rank& rank = *ranks_[index];
    // gpurun_abort(): the other ranks are told to end before they notice the death, which they would only report.
    if (whole_job)
        end_ranks(SIGTERM);
    // Before anything is printed, so that ranks that wait for this one go on. If it fails, they are ended below anyway.
    mark_dead(number(index));
    if (has_.uplink != nullptr) {
        has_.outputs->pump(index);
        has_.uplink->rank_failed(index, failure, whole_job, has_.outputs->last_error_line(index));
        return;
    }
    const bool ends_job = whole_job || !plan_.ending.keep_going;
    if (!exit_status_)
        exit_status_ = failure.exit_status;
    // What it printed last comes before what we say.
    has_.outputs->pump(index);
    const Others others = live_ == (rank.live ? 1u : 0u) ? Others::kNone : ends_job ? Others::kEnded : Others::kGoOn;
    // As in any pipeline.
    const bool goes_without_saying = failure.exit_status == 128 + SIGPIPE && has_.outputs->reader_gone();
    if (!goes_without_saying)
        say(summarize({index, rank.process.pid(), describe_device(plan_.ranks[index].device), failure.what,
                       worth_repeating(index, has_.outputs->last_error_line(index), plan_.output)},
                      others));
    if (ends_job)
        end_ranks(SIGTERM);
    else // without this one, those that wait in gpurun_init() would wait for ever
        assembly_.refuse(base::Status::kPeerLost,
                         base::format("rank {} {} before every rank had joined", index, failure.what));
}

void Job::end_ranks(int signal) {
    if (ending_ >= Ending::kTerminated)
        return;
    enter(Ending::kTerminated);
    signal_ranks({signal, SIGCONT}); // a stopped process would sleep through the first
}

void Job::enter(Ending ending) {
    ending_ = ending;
    if (ending == Ending::kKilled)
        signal_ranks({SIGKILL});
    else
        has_.grace.start(plan_.ending.grace_ms);
}

void Job::on_grace_over() {
    if (!has_.grace.acknowledge())
        return;
    if (ending_ == Ending::kRefused)
        end_ranks(SIGTERM);
    else if (timed_out_)
        hurry();
    else if (ending_ == Ending::kTerminated)
        enter(Ending::kKilled);
}

void Job::rank_said_hello(uint32_t rank) {
    if (has_.uplink != nullptr) {
        has_.uplink->rank_said_hello(rank);
        return;
    }
    // Ranks that ended well without gpurun make a job that can never start, now that one wants to.
    for (uint32_t other = 0; other < size() && ending_ == Ending::kNone; ++other)
        if (!ranks_[other]->live && !assembly_.said_hello(other))
            fail(other, Failure{1, "exited without gpurun_init(), in which other ranks wait for it"}, false);
}

void Job::rank_misbehaved(uint32_t rank, const std::string& what) {
    if (ending_ == Ending::kNone)
        fail(rank, Failure{1, base::format("sent what gpurun does not understand ({})", what)}, true);
}

// Every rank gets to know, and the time to say so itself.
void Job::versions_differ(uint32_t rank, const std::string& what) {
    assembly_.refuse(base::Status::kVersion, what);
    if (ending_ != Ending::kNone)
        return;
    if (has_.uplink != nullptr) {
        has_.uplink->versions_differ(rank, what);
        return;
    }
    exit_status_ = 1;
    say(base::format("rank {} (pid {}) cannot join: {}", rank, ranks_[rank]->process.pid(), what));
    enter(Ending::kRefused);
}

void Job::rank_left_early(uint32_t rank) {
    ranks_[rank]->left_early = true;
    has_.departure.start(kDepartureMs);
}

void Job::on_departure() {
    has_.departure.acknowledge();
    for (uint32_t rank = 0; rank < size() && ending_ == Ending::kNone; ++rank)
        if (ranks_[rank]->left_early && ranks_[rank]->live)
            fail(rank, Failure{1, "left gpurun_init() while other ranks wait there"}, true);
}

void Job::rank_aborted(uint32_t rank, int code) {
    if (ending_ >= Ending::kTerminated)
        return;
    const int exit_status = (code & 0xff) != 0 ? code & 0xff : 1;
    fail(rank, Failure{exit_status, base::format("called gpurun_abort({})", code)}, true);
}

void Job::write_trace() {
    if (const std::string line = has_.tracing->write(has_.signals, exit_status_); !line.empty())
        say(line);
}

} // namespace gpurun::launcher
