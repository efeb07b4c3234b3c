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

static gpurun_comm make_ring(const Job& job) {
    const int periodic = 1;
    gpurun_comm ring = GPURUN_COMM_NULL;
    MUST(gpurun_cart_create(GPURUN_COMM_WORLD, 1, &job.size, &periodic, 0, &ring));
    return ring;
}

gpurun_status exchange_with_neighbours(const Job& job, bool in_stream) {
    gpurun_comm ring = make_ring(job);
    const gpurun_status status = gpurun_neighbor_alltoall(job.device, kSmall, GPURUN_BYTE, job.other, kSmall,
                                                          GPURUN_BYTE, ring, in_stream ? job.stream : GPURUN_HOST);
    MUST(gpurun_comm_free(&ring));
    return status;
}

void victim_makes_ring(const Job& job) { (void)make_ring(job); }

} // namespace faults
