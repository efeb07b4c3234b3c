// Seeded delays and reordering: what makes a protocol that forgot to wait fail in a test.
//
// A Pace belongs to one stream. What it decides depends on the seed, the stream's number and the operation's
// index only, so a seed replays. Without a seed it decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpurun::device::emulated {

class Pace {
  public:
    static constexpr size_t kMostPieces = 8;

    Pace() = default;
    Pace(uint64_t seed, int64_t longest_us, uint32_t stream)
        : seed_(seed), longest_us_(longest_us), state_(mix(seed ^ mix(stream + 1))) {}

    bool on() const { return seed_ != 0; }
    // Sleeps for a while, or not at all: half of the calls.
    void linger();
    // Copies in up to kMostPieces pieces, in any order. REQUIRES that the ranges do not overlap.
    void copy(std::byte* destination, const std::byte* source, size_t bytes);
    void fill(std::byte* destination, int value, size_t bytes);
    // True for half of the calls, without a seed never.
    bool coin() { return on() && (next() & 1) != 0; }

  private:
    static uint64_t mix(uint64_t word);
    uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
    // Calls `work(offset, bytes)` for each piece of [0, bytes).
    template <typename Work>
    void in_pieces(size_t bytes, const Work& work);

    uint64_t seed_ = 0;
    int64_t longest_us_ = 0;
    uint64_t state_ = 0;
};

} // namespace gpurun::device::emulated
