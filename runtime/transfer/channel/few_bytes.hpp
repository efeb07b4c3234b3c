// Copies of a few bytes, of which a call of memcpy() would take most of the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpurun::transfer {

constexpr size_t kMostFew = 32;

// Copies 0 to kMostFew bytes, in pieces that overlap. The two ranges do not.
inline void copy_few(std::byte* to, const std::byte* from, size_t bytes) {
    const auto both_ends = [&]<typename Piece>(Piece) {
        Piece first;
        Piece last;
        std::memcpy(&first, from, sizeof first);
        std::memcpy(&last, from + bytes - sizeof last, sizeof last);
        std::memcpy(to, &first, sizeof first);
        std::memcpy(to + bytes - sizeof last, &last, sizeof last);
    };
    struct Sixteen {
        uint64_t words[2];
    };
    if (bytes == 8) // the most common
        std::memcpy(to, from, 8);
    else if (bytes >= 16)
        both_ends(Sixteen{});
    else if (bytes >= 8)
        both_ends(uint64_t{});
    else if (bytes >= 4)
        both_ends(uint32_t{});
    else
        for (size_t i = 0; i < bytes; ++i)
            to[i] = from[i];
}

} // namespace gpurun::transfer
