#include "tracing.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "trace_file.hpp"

#include <algorithm>

namespace gpurun::launcher {

using base::Result;

namespace {

// Pinned by the ranks as soon as they join, for times of messages, and as much for those of runs of graphs.
constexpr uint64_t kTimesBytes = uint64_t{64} << 20; // of all ranks
constexpr uint64_t kTimesBytesOfRank = uint64_t{8} << 20;

// For how many of a rank there is room to say when they moved.
uint64_t room_for_times(uint32_t ranks, uint64_t events, size_t bytes_of_each) {
    const uint64_t bytes = std::min(kTimesBytes / std::max<uint32_t>(ranks, 1), kTimesBytesOfRank);
    return std::min(events, bytes / bytes_of_each);
}
uint64_t timed_messages(uint32_t ranks, uint64_t events) {
    return room_for_times(ranks, events, sizeof(platform::TraceTimes));
}
uint64_t timed_runs(uint32_t ranks, uint64_t events) {
    return room_for_times(ranks, events, sizeof(platform::RunTimes));
}

} // namespace

Result<std::unique_ptr<Tracing>> Tracing::create(std::string path, uint32_t ranks, TraceLimits limits) {
    GPURUN_TRY(TraceFile::check(path));
    std::unique_ptr<Tracing> tracing(new Tracing(std::move(path), limits));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        GPURUN_ASSIGN(platform::TraceBuffer buffer,
                      platform::TraceBuffer::create(limits.events, timed_messages(ranks, limits.events),
                                                    timed_runs(ranks, limits.events)));
        tracing->ranks_.push_back({std::move(buffer), {}});
    }
    return tracing;
}

void Tracing::started(uint32_t rank, int pid, std::string device) {
    ranks_[rank].facts.pid = pid;
    ranks_[rank].facts.device = std::move(device);
}

void Tracing::ended(uint32_t rank) { ranks_[rank].facts.ended_ns = platform::now_ns(); }

Result<std::string> Tracing::write(base::FunctionRef<bool()> stop) const {
    std::vector<TracedRank> ranks;
    for (const Rank& rank : ranks_) {
        ranks.push_back(rank.facts);
        ranks.back().buffer = &rank.buffer;
    }
    GPURUN_ASSIGN(TraceFile file, TraceFile::create(path_));
    const auto sink = [&](std::string_view text) -> Result<void> {
        if (stop())
            return base::error(base::Status::kSystem, "--trace {}: not written, because gpurun was asked to end",
                               path_);
        return file.write(text);
    };
    GPURUN_ASSIGN(const TraceSummary summary, write_trace(ranks, origin_ns_, limits_.bytes, sink));
    GPURUN_TRY(file.finish());
    return missing(summary);
}

std::string Tracing::missing(const TraceSummary& summary) const {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    std::string text;
    const auto add = [&](uint64_t number, const std::string& what) {
        if (number != 0)
            text += (text.empty() ? base::format("--trace {}: ", path_) : "; ") + what;
    };
    add(summary.lost, base::format("{} events are missing: those after the first {} of a rank; GPURUN_TRACE_EVENTS "
                                   "makes room for more",
                                   summary.lost, limits_.events));
    add(summary.left_out,
        base::format("the last {} events are left out, because the file is to be no larger than {} bytes; "
                     "GPURUN_TRACE_BYTES allows more",
                     summary.left_out, limits_.bytes));
    add(summary.untimed, base::format("the device times of {} messages are missing: of those after the first {} of a "
                                      "rank",
                                      summary.untimed, timed_messages(ranks, limits_.events)));
    add(summary.lost_runs, base::format("{} runs of messages of graphs are missing: those after the first {} of a rank",
                                        summary.lost_runs, timed_runs(ranks, limits_.events)));
    return text;
}

} // namespace gpurun::launcher
