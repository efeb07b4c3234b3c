// A process of the job, counted from 0 on. A communicator's rank is a number of its own (comm/group.hpp): the two are
// different types, translated once when a call comes in and once when its status goes out.
#pragma once

#include <compare>
#include <cstdint>

namespace gpurun::base {

struct WorldRank {
    uint32_t value = 0;
    auto operator<=>(const WorldRank&) const = default;
};

} // namespace gpurun::base
