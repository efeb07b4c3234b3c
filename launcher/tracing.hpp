// gpurun --trace: a buffer for each rank while the job runs, and the file at its end.
#pragma once

#include "base/function_ref.hpp"
#include "platform/clock.hpp"
#include "platform/signals.hpp"
#include "trace_writer.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct TraceLimits {
    uint64_t events = 0; // that fit into the buffer of a rank
    uint64_t bytes = 0;  // of the file, about

    static base::Result<TraceLimits> from_settings();
};

class Tracing {
  public:
    // kArgument if the file cannot be made.
    static base::Result<std::unique_ptr<Tracing>> create(std::string path, uint32_t ranks, TraceLimits limits);
    // On a node: of `ranks` ranks of a job of `all`, whose head writes the file.
    static base::Result<std::unique_ptr<Tracing>> record(uint32_t ranks, uint32_t all, TraceLimits limits);

    // What the rank is to record in.
    int fd(uint32_t rank) const { return ranks_[rank].buffer.fd(); }
    void started(uint32_t rank, int pid, std::string device, uint32_t node = 0);
    void ended(uint32_t rank) { ended_at(rank, platform::now_ns()); }
    void ended_at(uint32_t rank, int64_t time_ns) { ranks_[rank].facts.ended_ns = time_ns; }

    uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
    int64_t ended_ns(uint32_t rank) const { return ranks_[rank].facts.ended_ns; }
    platform::TraceBuffer& buffer(uint32_t rank) { return ranks_[rank].buffer; }
    // There are several nodes; their clocks were converted to the head's, with this error at most.
    void nodes_off_by(int64_t error_ns) { nodes_off_by_ns_ = std::max(nodes_off_by_ns_.value_or(0), error_ns); }

    // REQUIRES: every rank has ended. A signal to end gives it up: nothing else is left to end. Returns what is to be
    // said, or ""; a failure becomes the exit status if there is none.
    std::string write(platform::SignalSource& signals, std::optional<int>& exit_status) const;

  private:
    base::Result<std::string> write_until(base::FunctionRef<bool()> stop) const;

    struct Rank {
        platform::TraceBuffer buffer;
        TracedRank facts;
    };
    std::string missing(const TraceSummary& summary) const; // for want of room

    Tracing(std::string path, TraceLimits limits) : path_(std::move(path)), limits_(limits) {}
    base::Result<void> add_ranks(uint32_t ranks, uint32_t all);

    std::string path_;
    TraceLimits limits_;
    int64_t origin_ns_ = platform::now_ns();
    std::vector<Rank> ranks_;
    std::optional<int64_t> nodes_off_by_ns_;
};

} // namespace gpurun::launcher
