#include "collective.hpp"

namespace gpurun::bench {

namespace {

constexpr size_t kBoundary = 16; // what one access moves

} // namespace

bool in_blocks(Collective collective) {
    switch (collective) {
    case Collective::kAllgather:
    case Collective::kAlltoall:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter: return true;
    case Collective::kAllreduce:
    case Collective::kBcast:
    case Collective::kReduce:
    case Collective::kBarrier: return false;
    }
    return false;
}

size_t whole_bytes(Collective collective, size_t asked, int ranks) {
    if (collective == Collective::kBarrier)
        return 0;
    const size_t blocks = in_blocks(collective) ? static_cast<size_t>(ranks) : 1;
    const size_t share = asked / blocks;
    if (blocks > 1 && share >= kBoundary)
        return share / kBoundary * kBoundary * blocks;
    const size_t elements = (asked + blocks * kElementBytes - 1) / (blocks * kElementBytes);
    return elements * kElementBytes * blocks;
}

double bus_share(Collective collective, int ranks) {
    const double others = static_cast<double>(ranks - 1) / ranks;
    if (collective == Collective::kAllreduce)
        return 2 * others;
    return in_blocks(collective) ? others : 1;
}

} // namespace gpurun::bench
