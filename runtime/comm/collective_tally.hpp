// How many collectives this rank has made, of which kind, among how many ranks and by which algorithm, for
// GPURUN_REPORT=collectives. Owned by Schedules; used under the engine lock.
#pragma once

#include "comm/schedule.hpp"

#include <string>
#include <vector>

namespace gpurun::comm {

class CollectiveTally {
  public:
    // One whose steps have been added. `bytes`: of the buffer that this rank gives or gets.
    void add(const Schedule& schedule, size_t bytes);
    // A line for each, in the order of their first calls.
    std::string report(WorldRank self) const;

  private:
    struct Line {
        base::Collective kind;
        int ranks;
        std::optional<base::Algorithm> algorithm;
        uint64_t calls = 0, bytes = 0;
    };

    std::vector<Line> lines_;
};

} // namespace gpurun::comm
