// Which receives fit which messages, in the ranks of a communicator.
#include "comm/matcher.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using comm::Group;
using comm::kAnySource;
using comm::kAnyTag;
using comm::Pattern;
using comm::WorldRank;

TEST_SUITE_BEGIN("matching");

TEST_CASE("context, source and tag must agree, unless they are wildcards") {
    const Group world = Group::of_all(3);
    const transfer::Envelope envelope{2, 7, 0};
    const WorldRank from{1};
    CHECK(Pattern::of(world, 2, 1, 7).fits(from, envelope));
    CHECK(Pattern::of(world, 2, kAnySource, 7).fits(from, envelope));
    CHECK(Pattern::of(world, 2, 1, kAnyTag).fits(from, envelope));
    CHECK(Pattern::of(world, 2, kAnySource, kAnyTag).fits(from, envelope));
    CHECK_FALSE(Pattern::of(world, 3, kAnySource, kAnyTag).fits(from, envelope));
    CHECK_FALSE(Pattern::of(world, 2, 0, 7).fits(from, envelope));
    CHECK_FALSE(Pattern::of(world, 2, 1, 8).fits(from, envelope));
}

TEST_CASE("a pattern names its source in the communicator's ranks, and fits the process that this is") {
    const Group reversed({WorldRank{5}, WorldRank{3}, WorldRank{0}});
    const Pattern pattern = Pattern::of(reversed, 4, 1, 7);
    const transfer::Envelope envelope{4, 7, 0};
    CHECK(pattern.fits(WorldRank{3}, envelope));
    CHECK_FALSE(pattern.fits(WorldRank{1}, envelope));
    CHECK(pattern.rank_of(WorldRank{3}) == 1);
    CHECK(pattern.rank_of(WorldRank{0}) == 2);
    CHECK(pattern.rank_of(WorldRank{1}) == comm::kProcNull); // no member
}

TEST_CASE("users' wildcards never take a collective's message") {
    const comm::Communicator world(comm::kWorldId, Group::of_all(2), WorldRank{0});
    const transfer::Envelope collective{world.collective_context(), 0, 0};
    CHECK_FALSE(Pattern::of(world.group(), world.user_context(), kAnySource, kAnyTag).fits(WorldRank{1}, collective));
}

TEST_SUITE_END();
