// Groups of ranks through the API: what each call gives and refuses. What sets come out is in tests/unit/comm.
#include "support/job.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpurun::test::rank_groups {

namespace {

// Freed at the end of a test.
struct Group {
    gpurun_group handle = GPURUN_GROUP_NULL;
    Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group() {
        if (handle.id != 0)
            (void)gpurun_group_free(&handle);
    }
    int size() const {
        int size = -1;
        REQUIRE_OK(gpurun_group_size(handle, &size));
        return size;
    }
    // The ranks of the job that it has.
    std::vector<int> ranks() const {
        Group world;
        REQUIRE_OK(gpurun_comm_group(kWorld, &world.handle));
        std::vector<int> own(static_cast<size_t>(size())), there(own.size());
        std::iota(own.begin(), own.end(), 0);
        REQUIRE_OK(gpurun_group_translate_ranks(handle, own.size(), own.data(), world.handle, there.data()));
        return there;
    }
};

std::vector<int> all() {
    std::vector<int> ranks(static_cast<size_t>(test::size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

} // namespace

TEST_SUITE_BEGIN("rank groups");

TEST_CASE("the group of all ranks has them in order, and this process at its rank") {
    Group world;
    REQUIRE_OK(gpurun_comm_group(kWorld, &world.handle));
    CHECK(world.ranks() == all());
    int own = -1;
    REQUIRE_OK(gpurun_group_rank(world.handle, &own));
    CHECK(own == rank());
}

TEST_CASE("groups are made of others by lists, ranges and set operations") {
    Group world, first, rest, reversed, united, both, difference, ranged;
    REQUIRE_OK(gpurun_comm_group(kWorld, &world.handle));
    const int zero[] = {0};
    REQUIRE_OK(gpurun_group_incl(world.handle, 1, zero, &first.handle));
    CHECK(first.ranks() == std::vector<int>{0});
    REQUIRE_OK(gpurun_group_excl(world.handle, 1, zero, &rest.handle));
    std::vector<int> expected = all();
    expected.erase(expected.begin());
    CHECK(rest.ranks() == expected);
    const int down[][3] = {{size() - 1, 0, -1}};
    REQUIRE_OK(gpurun_group_range_incl(world.handle, 1, down, &reversed.handle));
    expected = all();
    std::reverse(expected.begin(), expected.end());
    CHECK(reversed.ranks() == expected);
    REQUIRE_OK(gpurun_group_range_excl(world.handle, 1, down, &ranged.handle));
    CHECK(ranged.handle.id == GPURUN_GROUP_EMPTY.id);
    REQUIRE_OK(gpurun_group_union(first.handle, reversed.handle, &united.handle));
    expected.pop_back();
    expected.insert(expected.begin(), 0);
    CHECK(united.ranks() == expected);
    REQUIRE_OK(gpurun_group_intersection(reversed.handle, first.handle, &both.handle));
    CHECK(both.ranks() == std::vector<int>{0});
    REQUIRE_OK(gpurun_group_difference(world.handle, first.handle, &difference.handle));
    gpurun_comparison comparison{};
    REQUIRE_OK(gpurun_group_compare(difference.handle, rest.handle, &comparison));
    CHECK(comparison == GPURUN_IDENT);
    REQUIRE_OK(gpurun_group_compare(world.handle, reversed.handle, &comparison));
    CHECK(comparison == (size() == 1 ? GPURUN_IDENT : GPURUN_SIMILAR));
    REQUIRE_OK(gpurun_group_compare(rest.handle, first.handle, &comparison));
    CHECK(comparison == GPURUN_UNEQUAL);
}

TEST_CASE("ranks are translated, and a process that is not there has none") {
    Group world, last;
    REQUIRE_OK(gpurun_comm_group(kWorld, &world.handle));
    const int only[] = {size() - 1};
    REQUIRE_OK(gpurun_group_incl(world.handle, 1, only, &last.handle));
    const int asked[] = {size() - 1, GPURUN_PROC_NULL, 0};
    int got[3] = {-9, -9, -9};
    REQUIRE_OK(gpurun_group_translate_ranks(world.handle, 3, asked, last.handle, got));
    CHECK(got[0] == 0);
    CHECK(got[1] == GPURUN_PROC_NULL);
    CHECK(got[2] == (size() == 1 ? 0 : GPURUN_UNDEFINED));
    int own = -9;
    REQUIRE_OK(gpurun_group_rank(last.handle, &own));
    CHECK(own == (rank() == size() - 1 ? 0 : GPURUN_UNDEFINED));
    const int wrong[] = {size()};
    CHECK(gpurun_group_translate_ranks(world.handle, 1, wrong, last.handle, got) == GPURUN_ERR_RANK);
    REQUIRE_OK(gpurun_group_translate_ranks(world.handle, 0, nullptr, last.handle, nullptr));
}

TEST_CASE("a group that was freed, and what is no group, are refused") {
    gpurun_group group = GPURUN_GROUP_NULL, made = GPURUN_GROUP_NULL;
    REQUIRE_OK(gpurun_comm_group(kWorld, &group));
    const gpurun_group old = group;
    REQUIRE_OK(gpurun_group_free(&group));
    CHECK(group.id == GPURUN_GROUP_NULL.id);
    for (const gpurun_group each : {old, GPURUN_GROUP_NULL, gpurun_group{1u << 30}}) {
        int number = -1;
        gpurun_group copy = each;
        CHECK(gpurun_group_size(each, &number) == GPURUN_ERR_ARGUMENT);
        CHECK(gpurun_group_union(each, GPURUN_GROUP_EMPTY, &made) == GPURUN_ERR_ARGUMENT);
        CHECK(gpurun_group_free(&copy) == GPURUN_ERR_ARGUMENT);
    }
    CHECK(made.id == GPURUN_GROUP_NULL.id);
}

TEST_CASE("lists with a rank that is not there, or twice, and ranges without an end are refused") {
    Group world;
    REQUIRE_OK(gpurun_comm_group(kWorld, &world.handle));
    gpurun_group made = GPURUN_GROUP_NULL;
    const int outside[] = {size()}, twice[] = {0, 0};
    CHECK(gpurun_group_incl(world.handle, 1, outside, &made) == GPURUN_ERR_RANK);
    CHECK(gpurun_group_excl(world.handle, 2, twice, &made) == GPURUN_ERR_RANK);
    CHECK(gpurun_group_incl(world.handle, 1, nullptr, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_group_incl(world.handle, 1, twice, nullptr) == GPURUN_ERR_ARGUMENT);
    const int endless[][3] = {{0, 0, 0}}, beyond[][3] = {{0, size(), 1}};
    CHECK(gpurun_group_range_incl(world.handle, 1, endless, &made) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_group_range_excl(world.handle, 1, beyond, &made) == GPURUN_ERR_RANK);
    CHECK(made.id == GPURUN_GROUP_NULL.id);
}

TEST_CASE("the empty group is there, and stays when it is freed") {
    int number = -1;
    gpurun_group empty = GPURUN_GROUP_EMPTY;
    REQUIRE_OK(gpurun_group_size(empty, &number));
    CHECK(number == 0);
    REQUIRE_OK(gpurun_group_rank(empty, &number));
    CHECK(number == GPURUN_UNDEFINED);
    REQUIRE_OK(gpurun_group_free(&empty));
    REQUIRE_OK(gpurun_group_size(GPURUN_GROUP_EMPTY, &number));
}

TEST_SUITE_END();

} // namespace gpurun::test::rank_groups
