// What a message holds: bytes that differ with the seed and with the place, so that a lost, swapped, stale or shifted
// piece of a message never looks right. And what ranks have of which they make a sum: floats that differ as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpurun::bench {

// The seed of message `number` of rank `sender`.
uint64_t seed_of(int sender, uint64_t number);

// Writes bytes [offset, offset + bytes.size()) of the message with `seed`. Any piece can be made without the others.
void fill(std::span<unsigned char> bytes, uint64_t seed, size_t offset);

// Adds elements [first, first + sums.size()) of those with `seed`. They are whole numbers of one magnitude, so that
// sums of up to 32768 of them are exact in any order, and a bit that is wrong is not lost in a sum unless it is a low
// one.
void add_terms(std::span<float> sums, uint64_t seed, size_t first);

} // namespace gpurun::bench
