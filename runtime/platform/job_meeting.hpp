// How two jobs of one user on one machine meet: one accepts under a name, the other connects to it. One rank of each
// does that for its job. What comes of it is the name of a joint job, which all ranks of both then join as processes do
// that gpurun did not start (joining.hpp): the acceptor's ranks first. So the joint job has a segment over all of them,
// and a supervisor that marks dead who dies, whichever job it is of.
//
// The name is a socket in the user's private folder (meeting_place.hpp). Nothing that a stranger, or a process that is
// stopped or killed, does there keeps either side longer than its time limit.
#pragma once

#include "base/settings.hpp"
#include "platform/job_segment.hpp"

#include <cstdint>
#include <string>

namespace gpurun::platform {

// One side.
struct Party {
    uint32_t ranks = 0;      // that come
    uint64_t job[2] = {};    // whose they are
    int64_t timeout_ms = -1; // that it waits for the other side; negative: for ever
    bool mps = false; // its ranks share GPUs with all processes of the user, and not with those of their job alone

    static base::Result<Party> of(const JobSegment& job, uint32_t ranks, int64_t timeout_ms);
};

struct JointJob {
    std::string name;
    uint32_t first = 0; // the number there of this side's first rank
    uint32_t size = 0;
    bool mps = false; // of both
};

// kLauncher: another process accepts under this name. kTimeout: nobody has connected. One connector is taken; others
// that have called wait for the next who accepts.
base::Result<JointJob> accept_job(const std::string& name, const Party& self);

// kTimeout: nobody has accepted. kLauncher: the acceptor has refused, and says why: it is of the same job, there would
// be too many ranks, or it runs with another version. If the acceptor dies before it has answered, the next one is
// waited for.
base::Result<JointJob> connect_job(const std::string& name, const Party& self);

// The settings of one of this side's ranks, `index` of them, by which JobSession::connect() joins the joint job.
base::Settings settings_in(const JointJob& joint, uint32_t index, const base::Settings& own);

} // namespace gpurun::platform
