// The limits of an MPS server on one GPU: how many processes it serves, and how many hardware queues they have
// together. Pure functions.
#pragma once

#include "devices.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

// The most hardware queues that CUDA gives one process, and what a rank gets that has its GPU to itself.
inline constexpr uint32_t kMostQueues = 32;

// What the ranks of one GPU get together. An H200 with driver 580 refused the process that would have made it 128 ("out
// of memory" or MPS_MAX_CONNECTIONS_REACHED from cudaSetDevice): it served 3 processes with 32 queues each, 7 with 16,
// 15 with 8, 31 with 4, and 42 with 3 (2026-11-23, tests/bench/RESULTS.md). A few are left for other processes.
inline constexpr uint32_t kSharedQueues = 120;

// The CUDA_DEVICE_MAX_CONNECTIONS of each of the ranks that share a GPU.
uint32_t queues_per_rank(size_t ranks_on_gpu);

// How many processes a server has on one GPU. NVIDIA's MPS guide, "Client-Server Connection Limits": 48 from Volta to
// Hopper (as measured on the same H200), 60 from Blackwell on. A MIG instance has fewer, in proportion to its size.
size_t most_mps_clients(int compute_major);

// For a job that MPS serves: a notice if the user has set CUDA_DEVICE_MAX_CONNECTIONS so high that the ranks of a GPU
// ask for more queues than there are, or "". `queues` is what each rank asks for; 0: not known.
std::string notice_of_queues(const std::vector<Device>& ranks, const std::vector<uint32_t>& queues);

} // namespace gpurun::launcher
