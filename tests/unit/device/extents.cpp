// The allocator inside an arena, without memory.
#include "device/emulated/extents.hpp"

#include "support/unit.hpp"

#include <random>
#include <vector>

using gpurun::device::emulated::Extent;
using gpurun::device::emulated::Extents;

namespace {

constexpr size_t kGranule = 4096;

void free_extent(Extents& extents, size_t offset) {
    REQUIRE(extents.retire(offset));
    extents.reclaim(offset);
}

} // namespace

TEST_CASE("an extent is found by each of its offsets and by none beside them") {
    Extents extents(16 * kGranule, kGranule);
    const auto first = extents.allocate(100, 1);
    const auto second = extents.allocate(kGranule + 1, 2);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(extents.find(first->offset)->id == 1);
    CHECK(extents.find(first->offset + 99)->id == 1);
    CHECK_FALSE(extents.find(first->offset + 100));
    CHECK(extents.find(second->offset + kGranule)->id == 2);
    CHECK_FALSE(extents.find(second->offset + kGranule + 1));
    CHECK_FALSE(extents.find(16 * kGranule));
}

TEST_CASE("all of the capacity can be allocated, and not a byte more") {
    Extents extents(4 * kGranule, kGranule);
    CHECK_FALSE(extents.allocate(4 * kGranule + 1, 1));
    CHECK_FALSE(extents.allocate(SIZE_MAX, 1));
    REQUIRE(extents.allocate(4 * kGranule, 2));
    CHECK_FALSE(extents.allocate(1, 3));
}

TEST_CASE("the smallest hole that is large enough is taken") {
    Extents extents(16 * kGranule, kGranule);
    const auto large = extents.allocate(4 * kGranule, 1);
    REQUIRE(extents.allocate(1, 2));
    const auto small = extents.allocate(2 * kGranule, 3);
    REQUIRE(extents.allocate(1, 4));
    free_extent(extents, large->offset);
    free_extent(extents, small->offset);
    CHECK(extents.allocate(2 * kGranule, 5)->offset == small->offset);
    CHECK(extents.allocate(2 * kGranule, 6)->offset == large->offset);
}

TEST_CASE("freed neighbours become one hole, in whichever order they are freed") {
    for (const std::vector<size_t>& order : {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
        Extents extents(3 * kGranule, kGranule);
        std::vector<Extent> all;
        for (uint64_t id = 1; id <= 3; ++id)
            all.push_back(*extents.allocate(kGranule, id));
        for (const size_t i : order)
            free_extent(extents, all[i].offset);
        CHECK(extents.allocate(3 * kGranule, 4));
    }
}

TEST_CASE("a retired extent is no longer found, but its place is not reused before it is reclaimed") {
    Extents extents(2 * kGranule, kGranule);
    const auto extent = extents.allocate(2 * kGranule, 1);
    REQUIRE(extents.retire(extent->offset));
    CHECK_FALSE(extents.find(extent->offset));
    CHECK_FALSE(extents.retire(extent->offset));
    CHECK_FALSE(extents.allocate(1, 2));
    extents.reclaim(extent->offset);
    CHECK(extents.allocate(2 * kGranule, 3));
}

TEST_CASE("live extents never overlap, whatever is allocated and freed") {
    Extents extents(256 * kGranule, kGranule);
    std::mt19937 random(1);
    std::vector<Extent> live;
    for (uint64_t id = 1; id <= 4000; ++id) {
        if (random() % 2 == 0 && !live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            free_extent(extents, live.back().offset);
            live.pop_back();
        } else if (const auto extent = extents.allocate(1 + random() % (8 * kGranule), id)) {
            for (const Extent& other : live)
                REQUIRE((extent->offset + extents.rounded(extent->bytes) <= other.offset ||
                         other.offset + extents.rounded(other.bytes) <= extent->offset));
            live.push_back(*extent);
        }
    }
    for (const Extent& extent : live)
        free_extent(extents, extent.offset);
    CHECK(extents.allocate(256 * kGranule, 1));
}
