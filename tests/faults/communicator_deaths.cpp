// Deaths while communicators are made and used: what the survivors of peer_lost get, and the victim's part before.
#include "peer_lost.hpp"

namespace faults {

namespace {

gpurun_comm duplicate() {
    gpurun_comm made = GPURUN_COMM_NULL;
    MUST(gpurun_comm_dup(GPURUN_COMM_WORLD, &made));
    return made;
}

// Rank 0 and the victim in one, the others in another.
gpurun_comm split_pair(const Job& job) {
    gpurun_comm made = GPURUN_COMM_NULL;
    const bool in_pair = job.rank == 0 || job.rank == job.victim();
    MUST(gpurun_comm_split(GPURUN_COMM_WORLD, in_pair ? 0 : 1, 0, &made));
    return made;
}

} // namespace

gpurun_status split_with_victim(const Job&) {
    gpurun_comm made = GPURUN_COMM_NULL;
    const gpurun_status status = gpurun_comm_split(GPURUN_COMM_WORLD, 0, 0, &made);
    if (made.id != GPURUN_COMM_NULL.id)
        give_up("a split that has failed gives a communicator");
    // At once, and without using up what there is to give.
    for (int again = 0; again < 5000; again++)
        if (gpurun_comm_split(GPURUN_COMM_WORLD, 0, 0, &made) != GPURUN_ERR_PEER_LOST)
            give_up("a split with the dead is not refused");
    return status;
}

gpurun_status make_until_lost(const Job& job) {
    gpurun_status status = GPURUN_OK;
    for (gpurun_comm made = GPURUN_COMM_NULL; status == GPURUN_OK;) {
        status = gpurun_comm_split(GPURUN_COMM_WORLD, 0, -job.rank, &made);
        if (status == GPURUN_OK)
            MUST(gpurun_comm_free(&made));
    }
    MUST(create_group(job, job.size - 1)); // of those who live
    return status;
}

void victim_makes_for_ever(const Job& job) { (void)make_until_lost(job); }

gpurun_status create_group(const Job&, int members) {
    const int ranges[][3] = {{0, members - 1, 1}};
    gpurun_group world, group;
    gpurun_comm made = GPURUN_COMM_NULL;
    MUST(gpurun_comm_group(GPURUN_COMM_WORLD, &world));
    MUST(gpurun_group_range_incl(world, 1, ranges, &group));
    const gpurun_status status = gpurun_comm_create_group(GPURUN_COMM_WORLD, group, 7, &made);
    MUST(gpurun_group_free(&group));
    MUST(gpurun_group_free(&world));
    if (status != GPURUN_OK)
        return status;
    MUST(gpurun_barrier(made, GPURUN_HOST));
    MUST(gpurun_comm_free(&made));
    return GPURUN_OK;
}

gpurun_status create_group_of_survivors(const Job& job) {
    if (gpurun_probe(job.victim(), kNoTag, GPURUN_COMM_WORLD, nullptr) != GPURUN_ERR_PEER_LOST)
        give_up("a probe of the dead ends otherwise than by its death");
    return create_group(job, job.size - 1);
}

gpurun_status barrier_of_duplicate(const Job&) {
    gpurun_comm comm = duplicate();
    const gpurun_status status = gpurun_barrier(comm, GPURUN_HOST);
    gpurun_comm made = GPURUN_COMM_NULL;
    if (gpurun_comm_dup(comm, &made) != GPURUN_ERR_PEER_LOST)
        give_up("a duplicate of a communicator with the dead is not refused");
    MUST(gpurun_comm_free(&comm));
    return status;
}

void victim_duplicates(const Job&) { (void)duplicate(); }

gpurun_status receive_from_any_of_pair(const Job& job) {
    gpurun_comm comm = split_pair(job);
    const gpurun_status status = job.rank == 0 ? gpurun_recv(job.device, kLarge, GPURUN_BYTE, GPURUN_ANY_SOURCE, kTag,
                                                             comm, GPURUN_HOST, nullptr)
                                               : receive(job, GPURUN_HOST, job.victim(), kLarge);
    MUST(gpurun_comm_free(&comm));
    return status;
}

void victim_splits(const Job& job) { (void)split_pair(job); }

} // namespace faults
