// A build without CUDA: what needs it says so, or is never asked.

#include "contender.hpp"
#include "machine.hpp"
#include "mapped_memory.hpp"
#include "raw_copy.hpp"

namespace gpurun::bench {

std::unique_ptr<RawCopy> make_cuda_copy(const Ground&) { return nullptr; }

std::unique_ptr<Contender> make_nccl(const Ground&) { return nullptr; }

std::unique_ptr<Contender> make_nccl_collectives(const Ground&, Reference) { return nullptr; }

std::string why_not_nccl(Reference, const Options&, const gpurun_device_info&) {
    return "this gpurun-perf was built without CUDA; build it with -Dcuda=enabled";
}

void enqueue_kernel(int, gpurun_stream, uint64_t) {}

std::string driver_version() { return {}; }

std::string map_memory(size_t, void**) {
    return "this gpurun-perf was built without CUDA; build it with -Dcuda=enabled";
}

void unmap_memory(void*) {}

} // namespace gpurun::bench
