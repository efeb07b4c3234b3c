// Set operations of groups against a model: lists in which each process is looked for.
#include "comm/group_operations.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <random>

using namespace gpurun;
using base::Status;
using base::WorldRank;
using comm::Comparison;
using comm::Group;
using gpurun::test::must;

namespace {

using List = std::vector<uint32_t>;

List list_of(const Group& group) {
    List list;
    for (const WorldRank each : group.members())
        list.push_back(each.value);
    return list;
}

Group group_of(const List& list) {
    std::vector<WorldRank> members;
    for (const uint32_t each : list)
        members.push_back(WorldRank{each});
    return Group(std::move(members));
}

bool contains(const List& list, uint32_t process) { return std::find(list.begin(), list.end(), process) != list.end(); }

List keep(const List& from, const List& other, bool in_other) {
    List kept;
    for (const uint32_t each : from)
        if (contains(other, each) == in_other)
            kept.push_back(each);
    return kept;
}

Comparison compare(List one, List other) {
    if (one == other)
        return Comparison::kIdent;
    std::sort(one.begin(), one.end());
    std::sort(other.begin(), other.end());
    return one == other ? Comparison::kSimilar : Comparison::kUnequal;
}

class Random {
  public:
    explicit Random(uint32_t seed) : engine_(seed) {}
    List list() {
        List all(8);
        for (uint32_t i = 0; i < all.size(); ++i)
            all[i] = i;
        if (engine_() % 4 != 0)
            std::shuffle(all.begin(), all.end(), engine_);
        all.resize(engine_() % (all.size() + 1));
        return all;
    }
    // Some of the numbers below `size`, each once.
    std::vector<int> ranks(size_t size) {
        std::vector<int> chosen(size);
        for (size_t i = 0; i < size; ++i)
            chosen[i] = static_cast<int>(i);
        std::shuffle(chosen.begin(), chosen.end(), engine_);
        chosen.resize(engine_() % (size + 1));
        return chosen;
    }

  private:
    std::mt19937 engine_;
};

} // namespace

TEST_SUITE_BEGIN("group operations");

TEST_CASE("unions, intersections, differences and comparisons are those of the model") {
    for (uint32_t seed = 0; seed < 2000; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const List one = random.list(), other = random.list();
        const Group first = group_of(one), second = group_of(other);
        List both = one;
        for (const uint32_t each : keep(other, one, false))
            both.push_back(each);
        REQUIRE(list_of(comm::unite(first, second)) == both);
        REQUIRE(list_of(comm::intersect(first, second)) == keep(one, other, true));
        REQUIRE(list_of(comm::subtract(first, second)) == keep(one, other, false));
        REQUIRE(comm::compare(first, second) == compare(one, other));
        REQUIRE(comm::compare(first, group_of(one)) == Comparison::kIdent);
    }
}

TEST_CASE("what is included and what is excluded is the whole, and ranks are found at their places") {
    for (uint32_t seed = 0; seed < 2000; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        const List all = random.list();
        const std::vector<int> ranks = random.ranks(all.size());
        List chosen;
        for (const int each : ranks)
            chosen.push_back(all[static_cast<size_t>(each)]);
        const Group included = must(comm::include(group_of(all), ranks));
        REQUIRE(list_of(included) == chosen);
        REQUIRE(list_of(must(comm::exclude(group_of(all), ranks))) == keep(all, chosen, false));
        for (size_t i = 0; i < chosen.size(); ++i)
            REQUIRE(included.rank_of(WorldRank{chosen[i]}) == comm::Rank{static_cast<int>(i)});
    }
}

TEST_CASE("ranges go up and down by their strides, to the last rank or before it") {
    const Group group = Group::of_all(10);
    const comm::RankRange ranges[] = {{1, 6, 2}, {9, 7, -1}, {0, 0, 5}, {3, 2, 1}};
    CHECK(must(comm::expand(group, ranges)) == std::vector<int>{1, 3, 5, 9, 8, 7, 0});
    const comm::RankRange widest[] = {{0, 9, 2'147'483'647}};
    CHECK(must(comm::expand(group, widest)) == std::vector<int>{0});
}

TEST_CASE("ranks that are not there or are there twice, and ranges without an end, are refused") {
    const Group group = Group::of_all(3);
    const int outside[] = {0, 3}, negative[] = {-1}, twice[] = {1, 1};
    CHECK(comm::include(group, outside).error().status == Status::kRank);
    CHECK(comm::exclude(group, negative).error().status == Status::kRank);
    CHECK(comm::include(group, twice).error().status == Status::kRank);
    const comm::RankRange endless[] = {{0, 2, 0}}, beyond[] = {{0, 3, 1}};
    CHECK(comm::expand(group, endless).error().status == Status::kArgument);
    CHECK(comm::expand(group, beyond).error().status == Status::kRank);
}

TEST_SUITE_END();
