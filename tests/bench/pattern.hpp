// What a message holds: bytes that differ with the seed and with the place, so that a lost, swapped, stale or shifted
// piece of a message never looks right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpurun::bench {

// The seed of message `number` of rank `sender`.
uint64_t seed_of(int sender, uint64_t number);

// Writes bytes [offset, offset + bytes.size()) of the message with `seed`. Any piece can be made without the others.
void fill(std::span<unsigned char> bytes, uint64_t seed, size_t offset);

} // namespace gpurun::bench
