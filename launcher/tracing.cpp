#include "tracing.hpp"

#include "base/format.hpp"
#include "base/settings.hpp"
#include "trace_file.hpp"

#include <cstdlib>

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

Result<TraceLimits> TraceLimits::from_settings() {
    GPURUN_ASSIGN(const base::Settings settings,
                  base::read_settings([](const char* name) { return std::getenv(name); }));
    return TraceLimits{settings.trace_events, settings.trace_bytes};
}

Result<std::unique_ptr<Tracing>> Tracing::create(std::string path, uint32_t ranks, TraceLimits limits) {
    GPURUN_TRY(TraceFile::check(path));
    std::unique_ptr<Tracing> tracing(new Tracing(std::move(path), limits));
    GPURUN_TRY(tracing->add_ranks(ranks, ranks));
    return tracing;
}

Result<std::unique_ptr<Tracing>> Tracing::record(uint32_t ranks, uint32_t all, TraceLimits limits) {
    std::unique_ptr<Tracing> tracing(new Tracing({}, limits));
    GPURUN_TRY(tracing->add_ranks(ranks, all));
    return tracing;
}

// Buffers have the same room wherever they are made.
Result<void> Tracing::add_ranks(uint32_t ranks, uint32_t all) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        GPURUN_ASSIGN(platform::TraceBuffer buffer,
                      platform::TraceBuffer::create(limits_.events, timed_messages(all, limits_.events),
                                                    timed_runs(all, limits_.events)));
        ranks_.push_back({std::move(buffer), {}});
    }
    return {};
}

void Tracing::started(uint32_t rank, int pid, std::string device, uint32_t node) {
    constexpr uint32_t kMostPids = 1u << 22; // PID_MAX_LIMIT: processes of two nodes may have the same number
    ranks_[rank].facts.pid = pid;
    ranks_[rank].facts.process = node * kMostPids + static_cast<uint32_t>(pid);
    ranks_[rank].facts.device = std::move(device);
}

std::string Tracing::write(platform::SignalSource& signals, std::optional<int>& exit_status) const {
    auto written = write_until([&] {
        bool asked = false;
        while (const std::optional<int> signal = signals.next())
            asked = asked || *signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP;
        return asked;
    });
    if (written)
        return *written;
    if (!exit_status)
        exit_status = 1;
    return written.error().detail;
}

Result<std::string> Tracing::write_until(base::FunctionRef<bool()> stop) const {
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
    GPURUN_ASSIGN(const TraceSummary summary,
                  write_trace(ranks, origin_ns_ - nodes_off_by_ns_.value_or(0), limits_.bytes, sink, nodes_off_by_ns_));
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
