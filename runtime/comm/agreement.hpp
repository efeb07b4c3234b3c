// How the ranks of a communicator agree on a new one, or on a change of it: each tells all others what it wants, and an
// id that it would give.
//
// One exchange with all the others' answers, by dissemination: in round k a rank has the entries of 2^k ranks, and
// sends them to the rank 2^k before it, so it takes as many rounds as the ranks have bits. Then every rank knows the
// same, and finds the same members and the same id, which is what the new communicator's rank 0 has proposed. Nobody
// has to ask again, and ids that were proposed in vain are taken back.
//
// Several agreements may be under way in a process, on communicators that overlap, in any order: each has its own
// proposals, is a collective of its own communicator, and waits for nothing of another. So they can neither wait for
// each other in a circle nor come to one id. Two on one communicator follow each other, as all its collectives do.
#pragma once

#include "comm/schedule.hpp"

#include <type_traits>

namespace gpurun::comm {

enum class NewCommCall : uint16_t {
    kDup = 1,
    kSplit,
    kSplitType,
    kCreate,
    kCreateGroup,
    kCart,
    kCartSub,
    kGraph,
    kSetAlgorithm // makes none: it changes the one that there is
};

// Of one rank. Travels between processes.
struct Wish {
    NewCommCall call{};
    uint16_t has_room = 0; // for another communicator
    uint32_t id = kNoId;   // that it would give, had the communicator it for rank 0
    int32_t colour = kUndefined;
    int32_t key = 0;
    uint32_t alike = 0; // its group or grid, as a hash, or its type: what others must have given alike; of a graph, a
                        // sum that is 0 over all
};
static_assert(std::is_trivially_copyable_v<Wish> && sizeof(Wish) == 20);

// The steps by which `wishes`, one for each of `ranks` (of the schedule's communicator), come to all. The rank's own
// place is `self`; the first wish is its own, which `propose` fills before it is sent, and the others follow in the
// order of the ranks, and from the last around to the first. Rounds count from `first_round` on.
void build_agreement(Schedule& schedule, std::span<const Rank> ranks, size_t self, std::span<Wish> wishes,
                     Schedule::Work propose, int first_round = 0);
constexpr int kMostAgreementRounds = 16; // of 2^16 ranks

} // namespace gpurun::comm
