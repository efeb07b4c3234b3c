// What the end of a rank means for its job. A pure function.
#pragma once

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

} // namespace gpurun::launcher
