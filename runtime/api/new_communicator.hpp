// What the calls that make a communicator have in common: they wait for other ranks, and give a handle.
#pragma once

#include "api/call.hpp"

namespace gpurun::api {

inline base::Result<void> enter_new(Call& call, gpurun_comm comm, gpurun_comm* ret_comm) {
    GPURUN_TRY(refuse_in_group(base::this_call().name.load(std::memory_order_relaxed)));
    GPURUN_TRY(enter(call, comm));
    return check_output(ret_comm, "ret_comm");
}

inline base::Result<void> give(base::Result<uint64_t> made, gpurun_comm* ret_comm) {
    if (!made)
        return std::move(made).error();
    *ret_comm = gpurun_comm{*made};
    return {};
}

} // namespace gpurun::api
