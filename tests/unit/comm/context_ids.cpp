// Ids of communicators: who gives them, when one comes again, and what is known of those that have ended.
#include "comm/context_ids.hpp"
#include "support/unit.hpp"

#include <random>
#include <set>

using namespace gpurun;
using base::WorldRank;
using comm::ContextIdParts;
using comm::ContextIds;
using comm::EndedIds;
using comm::kNoId;

namespace {

constexpr WorldRank kThisRank{3};
constexpr ContextIdParts kParts(256);
constexpr WorldRank kMembers[] = {{1}, {3}, {5}};

void let_all_go(ContextIds& ids, uint32_t id) {
    for (const WorldRank each : kMembers)
        ids.let_go(id, each);
}

} // namespace

TEST_SUITE_BEGIN("context ids");

TEST_CASE("ids of different processes differ, and say who gave them") {
    std::set<uint32_t> seen{kNoId, comm::kWorldId, comm::kSelfId};
    for (const uint32_t process : {0u, 1u, 255u}) {
        ContextIds ids(WorldRank{process}, kParts);
        for (int i = 0; i < 10; ++i) {
            const uint32_t id = ids.propose();
            CHECK(seen.insert(id).second);
            CHECK(kParts.giver(id) == WorldRank{process});
            CHECK(id < 1u << 30);
        }
    }
}

TEST_CASE("an id that was proposed in vain is the next one") {
    ContextIds ids(kThisRank, kParts);
    const uint32_t id = ids.propose();
    ids.take_back(id);
    CHECK(ids.in_use() == 0);
    CHECK(ids.propose() == id);
}

TEST_CASE("an index is given again once all members have let go of it, with another generation") {
    ContextIds ids(kThisRank, kParts);
    const uint32_t id = ids.propose();
    ids.give(id, kMembers);
    ids.let_go(id, kMembers[0]);
    ids.let_go(id, kMembers[1]);
    CHECK(ids.in_use() == 1);
    ids.let_go(id, kMembers[1]); // again, and by one that is no member
    ids.let_go(id, WorldRank{7});
    CHECK(ids.in_use() == 1);
    ids.let_go(id, kMembers[2]);
    CHECK(ids.in_use() == 0);
    const uint32_t next = ids.propose();
    CHECK(next != id);
    CHECK(ContextIdParts::index(next) == ContextIdParts::index(id));
    ids.give(next, kMembers);
    let_all_go(ids, id); // late, of the old one
    CHECK(ids.in_use() == 1);
}

TEST_CASE("members may let go before the giver knows that they are members") {
    ContextIds ids(kThisRank, kParts);
    const uint32_t id = ids.propose();
    ids.let_go(id, kMembers[0]);
    ids.let_go(id, kMembers[2]);
    ids.give(id, kMembers);
    CHECK(ids.in_use() == 1);
    ids.let_go(id, kMembers[1]);
    CHECK(ids.in_use() == 0);
}

TEST_CASE("a member that dies has let go of everything") {
    ContextIds ids(kThisRank, kParts);
    const uint32_t id = ids.propose();
    const uint32_t other = ids.propose();
    ids.give(id, kMembers);
    ids.give(other, std::span(kMembers).subspan(1));
    ids.lose(kMembers[0]);
    ids.let_go(id, kMembers[1]);
    CHECK(ids.in_use() == 2);
    ids.lose(kMembers[2]);
    CHECK(ids.in_use() == 1);
    ids.let_go(other, kMembers[1]);
    CHECK(ids.in_use() == 0);
}

TEST_CASE("ids are exhausted, and there are more once one is free") {
    ContextIds ids(kThisRank, kParts);
    std::vector<uint32_t> given;
    for (uint32_t id = ids.propose(); id != kNoId; id = ids.propose()) {
        ids.give(id, kMembers);
        given.push_back(id);
    }
    CHECK(given.size() == ContextIds::kMost);
    CHECK(std::set<uint32_t>(given.begin(), given.end()).size() == given.size());
    CHECK(ids.propose() == kNoId);
    let_all_go(ids, given[17]);
    CHECK(ids.propose() != kNoId);
    CHECK(ids.propose() == kNoId);
}

TEST_CASE("two communicators never have the same id at the same time, a million of them one after another") {
    ContextIds ids(kThisRank, kParts);
    std::mt19937 random(1);
    std::vector<uint32_t> there;
    std::set<uint32_t> unique;
    for (int round = 0; round < 1'000'000; ++round) {
        if (there.size() < 50 && random() % 2 == 0) {
            there.push_back(ids.propose());
            REQUIRE(unique.insert(there.back()).second);
            ids.give(there.back(), kMembers);
        } else if (!there.empty()) {
            std::swap(there[random() % there.size()], there.back());
            let_all_go(ids, there.back());
            unique.erase(there.back());
            there.pop_back();
        }
    }
    CHECK(ids.in_use() == there.size());
}

TEST_CASE("of an index the generation that ended last is known, and those before it, and not the next") {
    EndedIds ended(kParts);
    const auto id = [](uint32_t generation) { return kParts.make(kThisRank, generation % kParts.generations(), 9); };
    CHECK_FALSE(ended.has(id(0)));
    for (uint32_t generation = 0; generation < 3 * kParts.generations(); ++generation) {
        ended.add(id(generation));
        REQUIRE(ended.has(id(generation)));
        REQUIRE_FALSE(ended.has(id(generation + 1)));
        if (generation > 0)
            REQUIRE(ended.has(id(generation - 1)));
    }
    CHECK_FALSE(ended.has(kParts.make(kThisRank, 0, 10)));
    CHECK_FALSE(ended.has(kParts.make(WorldRank{4}, 0, 9)));
}

TEST_CASE("the largest job has ids of 30 bits, too, each of its process, with fewer generations") {
    constexpr ContextIdParts kLarge(10'000);
    static_assert(kLarge.generations() == 16 && ContextIdParts(1).generations() == 1u << 18);
    for (const uint32_t process : {0u, 1u, 9999u}) {
        ContextIds ids(WorldRank{process}, kLarge);
        std::set<uint32_t> seen;
        for (uint32_t use = 0; use < kLarge.generations(); ++use) {
            const uint32_t id = ids.propose();
            CHECK(seen.insert(id).second);
            CHECK(id < 1u << 30);
            CHECK(kLarge.giver(id) == WorldRank{process});
            CHECK(kLarge.generation(id) == use);
            ids.give(id, kMembers);
            let_all_go(ids, id);
        }
        CHECK_FALSE(seen.insert(ids.propose()).second); // they go round
    }
}

TEST_SUITE_END();
