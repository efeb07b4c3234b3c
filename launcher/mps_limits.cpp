#include "mps_limits.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <map>

namespace gpurun::launcher {

namespace {
constexpr int kBlackwell = 10;
constexpr size_t kClients = 48;
constexpr size_t kClientsFromBlackwell = 60;
constexpr size_t kFewestQueues = 2; // of a rank, which CUDA gives a process under MPS by default
static_assert(kSharedQueues / kClientsFromBlackwell >= kFewestQueues);
} // namespace

uint32_t queues_per_rank(size_t ranks_on_gpu) {
    const size_t each = kSharedQueues / std::max<size_t>(ranks_on_gpu, 1);
    return static_cast<uint32_t>(std::clamp<size_t>(each, kFewestQueues, kMostQueues));
}

size_t most_mps_clients(int compute_major) { return compute_major >= kBlackwell ? kClientsFromBlackwell : kClients; }

std::string notice_of_queues(const std::vector<Device>& ranks, const std::vector<uint32_t>& queues) {
    struct Gpu {
        size_t ranks = 0;
        uint32_t queues = 0;
    };
    std::map<std::string, Gpu> gpus;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
        Gpu& gpu = gpus[ranks[rank].bus_id];
        ++gpu.ranks;
        gpu.queues += queues[rank];
    }
    for (const auto& [bus_id, gpu] : gpus)
        if (gpu.queues > kSharedQueues)
            return base::format("the {} ranks on GPU {} ask for {} hardware queues together, but MPS has about {} for "
                                "them, and refuses a rank for which none is left (\"out of memory\"): leave "
                                "CUDA_DEVICE_MAX_CONNECTIONS unset, or set it to {} at most",
                                gpu.ranks, bus_id, gpu.queues, kSharedQueues, queues_per_rank(gpu.ranks));
    return "";
}

} // namespace gpurun::launcher
