// Which collectives there are: what traces, ranges, hang tables and reports call them, and how their messages are told
// apart. A new one is a line here, a file in comm/collective/, and its functions in api/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpurun::base {

enum class Collective : uint8_t {
    kBarrier,
    kBcast,
    kReduce,
    kAllreduce,
    kReduceScatter,
    kReduceScatterBlock,
    kScan,
    kExscan,
    kGather,
    kGatherv,
    kScatter,
    kScatterv,
    kAllgather,
    kAllgatherv,
    kAlltoall,
    kAlltoallv,
    kNeighborAllgather,
    kNeighborAllgatherv,
    kNeighborAlltoall,
    kNeighborAlltoallv,
    kNewComm,
    kNewGroupComm,
    // What ranks tell each other of a collective, beside its messages (comm/collective_check.hpp).
    kCallNote = 30,
    kMismatchNote = 31, // the last for which a tag has room
};

// In the order of Collective. The calls are gpurun_NAME() and gpurun_iNAME(); of the last two, which make a
// communicator or change it, kNewCommCalls.
constexpr std::array<const char*, 22> kCollectiveNames = {"barrier",
                                                          "bcast",
                                                          "reduce",
                                                          "allreduce",
                                                          "reduce_scatter",
                                                          "reduce_scatter_block",
                                                          "scan",
                                                          "exscan",
                                                          "gather",
                                                          "gatherv",
                                                          "scatter",
                                                          "scatterv",
                                                          "allgather",
                                                          "allgatherv",
                                                          "alltoall",
                                                          "alltoallv",
                                                          "neighbor_allgather",
                                                          "neighbor_allgatherv",
                                                          "neighbor_alltoall",
                                                          "neighbor_alltoallv",
                                                          "communicator set-up",
                                                          "communicator of a group"};
constexpr std::array<const char*, 9> kNewCommCalls = {
    "comm_create",     "comm_create_group", "comm_dup", "comm_set_algorithm",        "comm_split",
    "comm_split_type", "cart_create",       "cart_sub", "dist_graph_create_adjacent"};
// What they have in common.
constexpr bool reduces(Collective kind) {
    return kind == Collective::kReduce || kind == Collective::kAllreduce || kind == Collective::kReduceScatter ||
           kind == Collective::kReduceScatterBlock || kind == Collective::kScan || kind == Collective::kExscan;
}
constexpr bool moves_at_root_alone(Collective kind) { // most ranks have one message
    return kind == Collective::kBcast || kind == Collective::kScatter || kind == Collective::kScatterv ||
           kind == Collective::kGather || kind == Collective::kGatherv;
}
constexpr const char* name_of(Collective collective) { return kCollectiveNames[static_cast<size_t>(collective)]; }

// The tag of a collective's message says which collective it is of, which of its rounds, and the how manyth collective
// of its communicator: those that are started together may be in different rounds at different ranks.
constexpr int kSequenceBits = 16;
constexpr int kRoundBits = 10;
constexpr int collective_tag(Collective collective, uint16_t sequence, int round) {
    return static_cast<int>(collective) << (kRoundBits + kSequenceBits) | round << kSequenceBits | sequence;
}
static_assert(kCollectiveNames.size() <= static_cast<size_t>(Collective::kCallNote));
// By the tag of one of its messages.
constexpr Collective collective_of(int tag) { return static_cast<Collective>(tag >> (kRoundBits + kSequenceBits)); }
constexpr uint16_t sequence_of(int tag) { return static_cast<uint16_t>(tag); }
constexpr const char* collective_name(int tag) {
    const auto index = static_cast<size_t>(collective_of(tag));
    return index < kCollectiveNames.size() ? kCollectiveNames[index] : "collective";
}

} // namespace gpurun::base
