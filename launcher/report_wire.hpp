// A rank's report as its node sends it to the head: what the node knows of the rank, and the entries that the rank has
// sent, as they are on the wire between ranks and gpurun.
//
// The head trusts a node's report no more than a node trusts its ranks'. Times are those of the node's clock.
#pragma once

#include "wait_reports.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpurun::launcher {

struct ReportOf {
    uint32_t number = 0; // of the question
    uint32_t rank = 0;   // in the job
    int64_t now_ns = 0;  // when it was sent
    RankReport report;
};

std::string as_message(const ReportOf& report);
// None: no node of a job of so many ranks sends that.
std::optional<ReportOf> read_report(std::string_view message, uint32_t ranks);

// The report's times in another clock, which shows so much more. What began before that clock did began with it.
void shift_times(RankReport& report, int64_t by_ns);

} // namespace gpurun::launcher
