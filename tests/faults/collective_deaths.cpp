// Deaths in collectives that reduce and gather: what the survivors of peer_lost get, and the victim's part before.
#include "peer_lost.hpp"

namespace faults {

gpurun_status reduce(const Job& job, gpurun_stream domain, size_t bytes) {
    return gpurun_allreduce(job.device, job.other, bytes / sizeof(float), GPURUN_FLOAT, GPURUN_SUM, GPURUN_COMM_WORLD,
                            domain);
}

gpurun_status gather_to_survivor(const Job& job) {
    if (job.rank != 0)
        return receive(job, GPURUN_HOST, job.victim(), kSmall);
    return gpurun_gather(GPURUN_IN_PLACE, kSmall, GPURUN_BYTE, job.device, kSmall, GPURUN_BYTE, 0, GPURUN_COMM_WORLD,
                         GPURUN_HOST);
}

// In a stream that is held it goes as far as messages go whose bytes do not come.
void start_reduction(const Job& job) {
    gpurun_request request = GPURUN_REQUEST_NULL;
    MUST(gpurun_iallreduce(job.device, job.other, kLarge / sizeof(float), GPURUN_FLOAT, GPURUN_SUM, GPURUN_COMM_WORLD,
                           job.stream, &request));
}

} // namespace faults
