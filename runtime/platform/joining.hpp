// How a process that gpurun did not start comes to a control socket: it finds the supervisor of the job by its name, or
// starts it. From then on it is on the launcher-rank wire like any rank (job_session.hpp).
#pragma once

#include "base/settings.hpp"
#include "platform/message_socket.hpp"

#include <string>

namespace gpurun::platform {

struct JoinedJob {
    MessageSocket socket;
    std::string node_address; // by which other nodes reach this one; "": all ranks are on it
};

// Returns once all ranks of the job `settings.job` have come. kLauncher, with a sentence that says what to do, if they
// do not come in time, or do not belong together.
base::Result<JoinedJob> join_job(const base::Settings& settings);

} // namespace gpurun::platform
