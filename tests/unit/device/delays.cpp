// Seeded pieces: they must cover what they copy, and a seed must replay.
#include "device/emulated/delays.hpp"

#include "support/unit.hpp"

#include <algorithm>
#include <vector>

using gpurun::device::emulated::Pace;

TEST_CASE("a copy in pieces delivers every byte, for every size and seed") {
    for (uint64_t seed = 0; seed < 50; ++seed)
        for (const size_t bytes : {size_t{1}, size_t{2}, size_t{7}, size_t{8}, size_t{9}, size_t{1000}}) {
            Pace pace(seed, 0, 1);
            std::vector<std::byte> from(bytes);
            for (size_t i = 0; i < bytes; ++i)
                from[i] = static_cast<std::byte>(i * 7 + 1);
            std::vector<std::byte> to(bytes);
            pace.copy(to.data(), from.data(), bytes);
            REQUIRE(from == to);
            pace.fill(to.data(), 0x5a, bytes);
            REQUIRE(std::count(to.begin(), to.end(), std::byte{0x5a}) == static_cast<ptrdiff_t>(bytes));
        }
}

TEST_CASE("the same seed and stream decide the same, others differ") {
    const auto draws = [](uint64_t seed, uint32_t stream) {
        Pace pace(seed, 0, stream);
        std::vector<bool> coins;
        for (int i = 0; i < 64; ++i)
            coins.push_back(pace.coin());
        return coins;
    };
    CHECK(draws(3, 1) == draws(3, 1));
    CHECK(draws(3, 1) != draws(3, 2));
    CHECK(draws(3, 1) != draws(4, 1));
    CHECK(draws(0, 1) == std::vector<bool>(64, false));
}
