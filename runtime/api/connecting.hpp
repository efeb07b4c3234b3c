// Jobs that meet: all ranks of a communicator, together with those of another job, come into a joint job, and leave it.
//
// One rank of each side finds the other (platform/job_meeting.hpp) and tells the ranks of its communicator; then all of
// them join, and open a world over it (world.hpp).
#pragma once

#include "api/call.hpp"

namespace gpurun::api {

enum class Side { kAccepts, kConnects };

// What gpurun_comm_accept() and gpurun_comm_connect() do.
base::Result<void> meet(Side side, const char* name, int timeout_ms, gpurun_comm comm, gpurun_comm* ret_comm);

// gpurun_comm_free() of the communicator that meet() has given, which `call` has entered.
base::Result<void> leave_joint_job(const Call& call, gpurun_comm* comm);

} // namespace gpurun::api
