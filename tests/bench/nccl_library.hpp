// NCCL, loaded at run time: gpurun-perf neither needs it to be built nor to run. The prototypes are those of every
// NCCL 2 from 2.7 on, the first with send and receive; those that came later may be missing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace gpurun::bench {

struct NcclId {
    char internal[128]; // passed by value, so its size is part of the interface
};
using NcclComm = struct NcclCommunicator*;
using NcclWindow = struct NcclRegisteredWindow*;
inline constexpr int kNcclBytes = 0; // ncclInt8
inline constexpr int kNcclFloat = 7; // ncclFloat32
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclSymmetric = 1; // NCCL_WIN_COLL_SYMMETRIC

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

    int (*all_reduce)(const void*, void*, size_t, int type, int op, NcclComm, cudaStream_t) = nullptr;
    int (*broadcast)(const void*, void*, size_t, int type, int root, NcclComm, cudaStream_t) = nullptr;
    int (*reduce)(const void*, void*, size_t, int type, int op, int root, NcclComm, cudaStream_t) = nullptr;
    int (*all_gather)(const void*, void*, size_t sent, int type, NcclComm, cudaStream_t) = nullptr;
    int (*reduce_scatter)(const void*, void*, size_t received, int type, int op, NcclComm, cudaStream_t) = nullptr;

    // Null before 2.28. The count is that of one block.
    int (*all_to_all)(const void*, void*, size_t, int type, NcclComm, cudaStream_t) = nullptr;
    int (*gather)(const void*, void*, size_t, int type, int root, NcclComm, cudaStream_t) = nullptr;
    int (*scatter)(const void*, void*, size_t, int type, int root, NcclComm, cudaStream_t) = nullptr;

    int (*mem_alloc)(void**, size_t) = nullptr;
    int (*mem_free)(void*) = nullptr;
    int (*window_register)(NcclComm, void*, size_t, NcclWindow*, int flags) = nullptr;
    int (*window_deregister)(NcclComm, NcclWindow) = nullptr;

    std::string missing;         // why it cannot be used, or ""
    std::string missing_windows; // why there are no windows, or ""
};

// Loaded once, and never unloaded.
const Nccl& nccl();

} // namespace gpurun::bench
