// A name for a job that no other has, on this machine or elsewhere. Processes carry it in their environment, so that
// whoever knows it finds them, even those that have cut every other tie.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpurun::platform {

std::string new_job_name();
// Whether it may be such a name, or several that are nested.
bool is_job_name(std::string_view text);

// `name` within the job `outer`, in one of whose ranks it was made; `outer` may be null or "".
std::string nested_job_name(const char* outer, const std::string& name);

struct ProcessesOfJob {
    std::vector<int> pids;
    // Of some process nothing could be told: it starts a program just now, has just ended, perhaps after it has started
    // another, or has an empty environment.
    bool uncertain = false;
};
// Processes of this user whose GPURUN_JOB is `name`, or nested in it. But for supervisors (supervisors.hpp).
ProcessesOfJob processes_of_job(const std::string& name);

} // namespace gpurun::platform
