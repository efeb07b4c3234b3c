// Numbers that every rank draws alike from one seed, on every machine; and sizes of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpurun::stress {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() { // splitmix64
        uint64_t word = state_ += 0x9e3779b97f4a7c15u;
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
        return word ^ (word >> 31);
    }
    // 0 to bound - 1.
    int below(int bound) { return static_cast<int>(next() % static_cast<uint64_t>(bound)); }
    bool chance(int percent) { return below(100) < percent; }

    template <typename Array>
    auto pick(const Array& array) {
        return array[next() % std::size(array)];
    }
    template <typename T>
    void shuffle(std::vector<T>& items) {
        for (size_t i = items.size(); i > 1; i--)
            std::swap(items[i - 1], items[next() % i]);
    }

  private:
    uint64_t state_;
};

// Of messages: around what paths and their pieces are chosen by, and seldom large.
constexpr size_t kSizes[] = {0,     1,     7,     8,     100,   4095,  4096,  4097, 8191,   8192, 8193,  16383,
                             16384, 16385, 32767, 32768, 32769, 65535, 65537, 64,   262145, 1000, 120000};
constexpr size_t kLargeSizes[] = {(1u << 20) + 1, (2u << 20) - 3, (4u << 20) + 1};

inline size_t any_size(Random& random) { return random.chance(2) ? random.pick(kLargeSizes) : random.pick(kSizes); }

} // namespace gpurun::stress
