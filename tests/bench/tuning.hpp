// Which algorithms of gpurun's are best on this machine: from what each takes to the settings that choose them. Pure.
#pragma once

#include "report.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpurun::bench {

// Those that gpurun_comm_set_algorithm() takes for the collective, beside "auto". None: there is one.
std::span<const Reference> algorithms_of(Collective collective);
bool is_algorithm(Reference reference);

// Settings of gpurun_environment(7) with their values, one for each collective of which the rows have algorithms beside
// gpurun's own choice: GPURUN_ALLREDUCE and "direct:64K,pieces". Several order domains count alike. Where its own
// choice takes as long as the best, or another algorithm at a single size is hardly faster, it stays.
std::vector<std::pair<std::string, std::string>> tuned_settings(const std::vector<Row>& rows);

// As shells read them.
std::string text_tuned(const std::vector<Row>& rows);

} // namespace gpurun::bench
