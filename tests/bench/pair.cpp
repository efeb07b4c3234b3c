#include "pair.hpp"

#include "call.hpp"

#include <algorithm>

namespace gpurun::bench {

namespace {

constexpr int kPairTag = 1;

} // namespace

Pair Pair::of_this_rank() {
    int rank = 0;
    int size = 0;
    CALL(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CALL(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    return Pair(rank, size);
}

void Pair::meet_all() const { CALL(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST)); }

void Pair::exchange(const void* mine, void* theirs, size_t bytes) const {
    CALL(gpurun_sendrecv(mine, bytes, GPURUN_BYTE, partner(), kPairTag, theirs, bytes, GPURUN_BYTE, partner(), kPairTag,
                         GPURUN_COMM_WORLD, GPURUN_HOST, nullptr));
}

void Pair::meet() const {
    const char here = 1;
    char there = 0;
    exchange(&here, &there, sizeof(here));
}

void Pair::go() const {
    const char here = 1;
    CALL(gpurun_send(&here, sizeof(here), GPURUN_BYTE, partner(), kPairTag, GPURUN_COMM_WORLD, GPURUN_HOST));
}

void Pair::await_go() const {
    char there = 0;
    CALL(gpurun_recv(&there, sizeof(there), GPURUN_BYTE, partner(), kPairTag, GPURUN_COMM_WORLD, GPURUN_HOST, nullptr));
}

double Pair::larger(double mine) const {
    double theirs = 0;
    exchange(&mine, &theirs, sizeof(mine));
    return std::max(mine, theirs);
}

} // namespace gpurun::bench
