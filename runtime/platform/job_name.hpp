// A name for a job that no other has, on this machine or elsewhere. Processes carry it in their environment, so that
// whoever knows it finds them, even those that have cut every other tie.
#pragma once

#include <string>
#include <vector>

namespace gpurun::platform {

std::string new_job_name();

// `name` within the job `outer`, in one of whose ranks it was made; `outer` may be null or "".
std::string nested_job_name(const char* outer, const std::string& name);

// Processes of this user whose GPURUN_JOB is `name`, or nested in it.
std::vector<int> processes_of_job(const std::string& name);

} // namespace gpurun::platform
