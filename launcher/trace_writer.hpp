// What ranks have recorded, as JSON in the trace event format that Perfetto and chrome://tracing open.
//
// A rank is a process there. It has a track for each thread that makes calls, and rows for messages that go out and
// come in: as many as it had at the same time. In a message's slice are what it did one after the other: waiting, and
// moving (or enqueuing, where this is all that the host knows). An arrow leads from a send to its receive. What a
// device has said of its part is in rows of its own, with arrows of its own between the two that moved the bytes.
//
// Written rank by rank in one pass, in memory that does not grow with the number of events, except for the times of
// devices, whose number is bounded. What is in a buffer is not trusted: a rank may have written there by accident.
#pragma once

#include "base/status.hpp"
#include "platform/trace_buffer.hpp"
#include "trace_text.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gpurun::launcher {

struct TracedRank {
    const platform::TraceBuffer* buffer = nullptr;
    int pid = -1;
    std::string device;   // for people
    int64_t ended_ns = 0; // what had not ended by then never did
    uint32_t process = 0; // its number in the file, which no other rank has: its pid on the first node
};

struct TraceSummary {
    int64_t clocks_off_by_ns = 0; // at most, when devices' clocks were read
    uint64_t events = 0;
    uint64_t lost = 0;      // for want of room
    uint64_t left_out = 0;  // because the file would be too large: events, and times of devices
    uint64_t untimed = 0;   // messages that have no times of the device, for want of room
    uint64_t lost_runs = 0; // of messages of graphs, for the same
};

// Times count from `origin_ns`, before which nothing was recorded. `most_bytes` is kept to within a few KiB a rank.
// `nodes_off_by_ns`: ranks of other nodes recorded by other clocks, which were converted with this error at most.
base::Result<TraceSummary> write_trace(std::span<const TracedRank> ranks, int64_t origin_ns, uint64_t most_bytes,
                                       TraceSink sink, std::optional<int64_t> nodes_off_by_ns = std::nullopt);

} // namespace gpurun::launcher
