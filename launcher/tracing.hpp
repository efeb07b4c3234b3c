// gpurun --trace: a buffer for each rank while the job runs, and the file at its end.
#pragma once

#include "base/function_ref.hpp"
#include "trace_writer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct TraceLimits {
    uint64_t events = 0; // that fit into the buffer of a rank
    uint64_t bytes = 0;  // of the file, about
};

class Tracing {
  public:
    // kArgument if the file cannot be made.
    static base::Result<std::unique_ptr<Tracing>> create(std::string path, uint32_t ranks, TraceLimits limits);

    // What the rank is to record in.
    int fd(uint32_t rank) const { return ranks_[rank].buffer.fd(); }
    void started(uint32_t rank, int pid, std::string device);
    void ended(uint32_t rank);

    // REQUIRES: every rank has ended. Gives it up once `stop` says so. Returns what is to be said, or "".
    base::Result<std::string> write(base::FunctionRef<bool()> stop) const;

  private:
    struct Rank {
        platform::TraceBuffer buffer;
        TracedRank facts;
    };
    std::string missing(const TraceSummary& summary) const; // for want of room

    Tracing(std::string path, TraceLimits limits) : path_(std::move(path)), limits_(limits) {}

    std::string path_;
    TraceLimits limits_;
    int64_t origin_ns_ = platform::now_ns();
    std::vector<Rank> ranks_;
};

} // namespace gpurun::launcher
