// NCCL, loaded at run time: gpurun-perf neither needs it to be built nor to run. The prototypes are those of every
// NCCL 2 from 2.7 on, the first with send and receive.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace gpurun::bench {

struct NcclId {
    char internal[128]; // passed by value, so its size is part of the interface
};
using NcclComm = struct NcclCommunicator*;
inline constexpr int kNcclBytes = 0; // ncclInt8

struct Nccl {
    int (*get_version)(int*) = nullptr;
    int (*get_unique_id)(NcclId*) = nullptr;
    int (*comm_init_rank)(NcclComm*, int ranks, NcclId, int rank) = nullptr;
    int (*comm_destroy)(NcclComm) = nullptr;
    int (*send)(const void*, size_t, int type, int peer, NcclComm, cudaStream_t) = nullptr;
    int (*recv)(void*, size_t, int type, int peer, NcclComm, cudaStream_t) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    const char* (*get_error_string)(int) = nullptr;

    std::string missing; // why it cannot be used, or ""
};

// Loaded once, and never unloaded.
const Nccl& nccl();

} // namespace gpurun::bench
