#include "told_hangs.hpp"

#include <algorithm>

namespace gpurun::launcher {

std::vector<ToldHangs::Wait> ToldHangs::waits_of(const WaitReports& reports) {
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

bool ToldHangs::any_new(const WaitReports& reports, int64_t latest_ns) const {
    const std::vector<Wait> waits = waits_of(reports);
    return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
        return wait.since_ns <= latest_ns && std::find(told_.begin(), told_.end(), wait) == told_.end();
    });
}

} // namespace gpurun::launcher
