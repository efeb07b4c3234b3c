// A number that nobody guesses, of the kernel's random bits: keys, tokens, names of which there is one.
#pragma once

#include <cstdint>
#include <random>

namespace gpurun::platform {

inline uint64_t random_number() {
    std::random_device bits;
    return uint64_t{bits()} << 32 | bits();
}

} // namespace gpurun::platform
