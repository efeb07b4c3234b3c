#include "nccl_call.hpp"

#include "call.hpp"

namespace gpurun::bench {

void must_nccl(int result, const char* what) {
    if (result == 0)
        return;
    std::fprintf(stderr, "gpurun-perf: NCCL: %s: %s; NCCL_DEBUG=INFO says more\n", what,
                 nccl().get_error_string(result));
    gpurun_abort(1);
}

std::string nccl_version() {
    int version = 0;
    MUST_NCCL(nccl().get_version(&version));
    const int unit = version < 10000 ? 1000 : 10000; // 2.8 and before: X * 1000 + Y * 100 + Z
    return "NCCL " + std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
           std::to_string(version % 100);
}

NcclRanks::NcclRanks(const Pair& job, int ranks) {
    NcclId id{};
    if (job.rank() == 0)
        MUST_NCCL(nccl().get_unique_id(&id));
    CALL(gpurun_bcast(&id, sizeof(id), GPURUN_BYTE, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    if (job.rank() < ranks)
        MUST_NCCL(nccl().comm_init_rank(&comm_, ranks, id, job.rank()));
}

NcclRanks::~NcclRanks() {
    if (comm_ != nullptr)
        nccl().comm_destroy(comm_);
}

} // namespace gpurun::bench
