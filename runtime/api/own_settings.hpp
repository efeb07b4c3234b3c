// What the environment says to this process, and which rank of which job that makes it.
#pragma once

#include "base/settings.hpp"
#include "platform/node_meeting.hpp"

#include <functional>
#include <string>

namespace gpurun::api {

// As it is told to gpurun_init_as().
struct Membership {
    std::string job;
    std::string rank;
    std::string size;
    bool takes_gpus_in_turn = false; // where nobody has chosen
    // Of ranks that another launcher has started; local_size is 0 of others.
    int local_rank = 0;
    int local_size = 0;
    std::function<base::Result<platform::MeetingOfRank>(int timeout_s)> meet; // with ranks on several nodes
};

// The settings of this process. One that gpurun did not start has a job, rank and size from gpurun_init_as() (`as`, if
// not null), from the environment, or, where that names the job only, from the program that started it.
base::Result<base::Settings> own_settings(const Membership* as);

} // namespace gpurun::api
