#include "host_reports.hpp"

#include "base/format.hpp"
#include "machine_report.hpp"
#include "placement_report.hpp"
#include "planning.hpp"
#include "report_json.hpp"

namespace gpurun::launcher {

using base::Result;

namespace {

using Reports = std::vector<std::pair<std::string, std::string>>;

Result<Reports> report_machines(const Options& options, const std::vector<Host>& hosts,
                                const char* const* environment) {
    GPURUN_ASSIGN(const MachineFacts facts, gather_facts(options, environment));
    Reports reports;
    for (const Host& host : hosts)
        reports.emplace_back(host.name, options.report.json ? machine_as_json(facts) : machine_as_text(facts));
    return reports;
}

// Of the ranks from `share.first` on.
Result<std::string> report_placement(Options options, Surroundings there, const NodeShare& share) {
    keep_share(options.programs, share.first, share.ranks);
    there.share = share;
    GPURUN_ASSIGN(const Placement placement, place_job(options, there));
    return options.report.json ? bindings_as_json(placement, there.machine, share.first)
                               : bindings_as_table(options, placement, there.machine, share.first);
}

Result<Reports> report_placements(const Options& options, const std::vector<Host>& hosts,
                                  const char* const* environment) {
    GPURUN_ASSIGN(const Surroundings there, look_around(options, environment));
    GPURUN_ASSIGN(const uint32_t usual_slots, count_slots(options, there));
    std::vector<uint32_t> slots;
    for (const Host& host : hosts)
        slots.push_back(host.slots.value_or(usual_slots));
    GPURUN_ASSIGN(const std::vector<uint32_t> filled,
                  fill_hosts(slots, wanted_ranks(options.programs), options.placement.oversubscribe));
    uint32_t all = 0;
    for (const uint32_t count : filled)
        all += count;
    GPURUN_TRY(check_ranks(options.output, all));
    Reports reports;
    uint32_t first = 0;
    for (size_t i = 0; i < hosts.size(); first += filled[i++])
        if (filled[i] > 0) {
            GPURUN_ASSIGN(std::string text,
                          report_placement(options, there, NodeShare{first, filled[i], all, hosts[0].name, ""}));
            reports.emplace_back(hosts[i].name, std::move(text));
        }
    return reports;
}

} // namespace

std::string join_reports(const Reports& of_hosts, bool as_json) {
    std::string text;
    for (const auto& [host, report] : of_hosts)
        text += base::format("on {}:\n{}", host, report);
    return as_json ? join_json(of_hosts).value_or(text) : text;
}

Result<std::string> report_recorded(const Options& options, const std::vector<Host>& hosts,
                                    const char* const* environment) {
    GPURUN_ASSIGN(const Reports reports, options.report.topology ? report_machines(options, hosts, environment)
                                                                 : report_placements(options, hosts, environment));
    return join_reports(reports, options.report.json);
}

} // namespace gpurun::launcher
