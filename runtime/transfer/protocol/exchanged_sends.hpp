// Which sends cross in the kernels of exchanges, though their bytes stay with them (exchanges.hpp).
#pragma once

namespace gpurun::transfer {

class Send;

// Whether its edges are signalled and awaited with what is collected in its stream.
bool joins_exchange(const Send& send);
// Whether its forward edge is signalled so, now that its stream has been taken.
bool signals_in_exchange(const Send& send);
// Whether a kernel of the target's may read it as it reduces, while a kernel of this rank reduces what it gets.
bool may_be_reduced(const Send& send);

} // namespace gpurun::transfer
