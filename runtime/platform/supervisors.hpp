// Supervisors: processes that watch over jobs which gpurun did not start (joining.hpp), known by how they were started.
//
// One may have been started by a rank of another job. It belongs to no job but its own, and ends with the last of its
// ranks: whoever ends or stops what a job has started spares it.
#pragma once

namespace gpurun::platform {

// The words that start one: kSupervisor kSupervise JOB.
inline constexpr const char* kSupervisor = "gpurun";
inline constexpr const char* kSupervise = "--supervise";

// Whether the process is one, or its guard.
bool is_supervisor(int pid);

} // namespace gpurun::platform
