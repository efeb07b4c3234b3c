// What the end of a rank, or an error, means for its job. Pure functions.
#pragma once

#include "base/status.hpp"
#include "platform/job_segment.hpp"
#include "platform/process.hpp"

#include <optional>
#include <string>

namespace gpurun::launcher {

struct RankEnd {
    platform::ProcessEnd process;
    bool said_hello = false;
    bool finalized = false;
    bool others_wait = false; // in gpurun_init(), for this one
};

struct Failure {
    int exit_status = 1; // for gpurun
    std::string what;    // follows "rank N (pid M) "
};

// Nothing: it ended well.
std::optional<Failure> judge(const RankEnd& end);

// Of gpurun, if there is no job because of this: 2 only where another command line would help.
int exit_status_of(const base::Error& error);

} // namespace gpurun::launcher
