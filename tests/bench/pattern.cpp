#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::bench {

namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

// splitmix64: all bits of the result depend on all of `word`.
uint64_t mixed(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

} // namespace

uint64_t seed_of(int sender, uint64_t number) { return mixed(number * kGolden + static_cast<uint64_t>(sender) + 1); }

void fill(std::span<unsigned char> bytes, uint64_t seed, size_t offset) {
    for (size_t done = 0; done < bytes.size();) {
        const size_t place = offset + done;
        const uint64_t word = mixed(seed + (place / 8 + 1) * kGolden);
        const size_t within = place % 8;
        const size_t count = std::min(8 - within, bytes.size() - done);
        std::memcpy(&bytes[done], reinterpret_cast<const unsigned char*>(&word) + within, count);
        done += count;
    }
}

void add_terms(std::span<float> sums, uint64_t seed, size_t first) {
    constexpr float kMagnitude = 256; // of terms, 256 to 511
    unsigned char terms[1024];
    for (size_t done = 0; done < sums.size();) {
        const size_t count = std::min(sizeof(terms), sums.size() - done);
        fill({terms, count}, seed, first + done);
        for (size_t i = 0; i < count; ++i)
            sums[done + i] += kMagnitude + terms[i];
        done += count;
    }
}

} // namespace gpurun::bench
