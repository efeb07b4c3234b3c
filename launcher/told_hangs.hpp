// Which waits a hang table has told of, so that --hang-timeout prints one once for each hang: again only when some wait
// has begun after the last table, and lasted as long.
#pragma once

#include "wait_reports.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::launcher {

class ToldHangs {
  public:
    // Whether somebody waits since before `latest_ns` who did not when the last table was printed.
    bool any_new(const WaitReports& reports, int64_t latest_ns) const;
    // A table of these is printed.
    void note(const WaitReports& reports) { told_ = waits_of(reports); }

  private:
    struct Wait {
        uint32_t rank;
        uint64_t thread;
        int64_t since_ns;
        // Of a message of a graph, else 0. Then `thread` says which one it is, and `since_ns` about how long it waits.
        uint64_t run = 0;
        bool operator==(const Wait& other) const {
            return rank == other.rank && thread == other.thread && run == other.run &&
                   (run != 0 || since_ns == other.since_ns);
        }
    };
    static std::vector<Wait> waits_of(const WaitReports& reports);

    std::vector<Wait> told_;
};

} // namespace gpurun::launcher
