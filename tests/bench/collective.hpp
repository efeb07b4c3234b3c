// What collectives have in common, whoever makes them: how many bytes they are said to have, and where these lie.
//
// `bytes` are those of the buffer of an all-reduce, broadcast and reduce; what is received altogether of an all-gather
// and a gather; what is sent altogether of an all-to-all, a reduce-scatter and a scatter. All are floats. Pure.
#pragma once

#include "options.hpp"

namespace gpurun::bench {

inline constexpr size_t kElementBytes = sizeof(float);
inline constexpr int kRoot = 0;

// Whether the whole has a block for each rank.
bool in_blocks(Collective collective);

// What is measured for so many bytes: whole elements, as many for each rank where there are blocks, and these begin at
// boundaries of 16 bytes unless they are smaller.
size_t whole_bytes(Collective collective, size_t asked, int ranks);

// Of the whole, how much crosses each rank's link at least one way: what makes numbers of ranks comparable.
double bus_share(Collective collective, int ranks);

} // namespace gpurun::bench
