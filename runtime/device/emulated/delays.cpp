#include "device/emulated/delays.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace gpurun::device::emulated {

// SplitMix64's finalizer.
uint64_t Pace::mix(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

void Pace::linger() {
    if (!on() || longest_us_ <= 0)
        return;
    const uint64_t roll = next();
    if ((roll & 1) != 0)
        std::this_thread::sleep_for(std::chrono::microseconds((roll >> 1) % static_cast<uint64_t>(longest_us_) + 1));
}

template <typename Work>
void Pace::in_pieces(size_t bytes, const Work& work) {
    const size_t pieces = on() ? std::min(bytes, 1 + next() % kMostPieces) : 1;
    std::array<std::pair<size_t, size_t>, kMostPieces> order{};
    size_t from = 0;
    for (size_t i = 0; i < pieces; ++i) {
        const size_t left = bytes - from;
        const size_t reserved = pieces - i - 1; // each later piece gets a byte at least
        const size_t length = reserved == 0 ? left : 1 + next() % (left - reserved);
        order[i] = {from, length};
        from += length;
    }
    for (size_t i = pieces; i > 1; --i)
        std::swap(order[i - 1], order[next() % i]);
    for (size_t i = 0; i < pieces; ++i) {
        if (i > 0)
            linger();
        work(order[i].first, order[i].second);
    }
}

void Pace::copy(std::byte* destination, const std::byte* source, size_t bytes) {
    in_pieces(bytes, [&](size_t offset, size_t length) { std::memcpy(destination + offset, source + offset, length); });
}

void Pace::fill(std::byte* destination, int value, size_t bytes) {
    in_pieces(bytes, [&](size_t offset, size_t length) { std::memset(destination + offset, value, length); });
}

} // namespace gpurun::device::emulated
