// Ranks of a communicator and processes of the job: translated once on the way in, and once on the way out.
#include "one_rank.hpp"

using namespace gpurun;
using base::WorldRank;
using comm::Communicator;
using comm::Group;
using comm::Rank;
using gpurun::test::must;
using gpurun::test::OneRank;

TEST_SUITE_BEGIN("groups");

TEST_CASE("in the group of all, a rank and its process have the same number") {
    const Group all = Group::of_all(4);
    CHECK(all.size() == 4);
    for (int rank = 0; rank < 4; ++rank) {
        CHECK(all.has(rank));
        CHECK(all.world(Rank{rank}) == WorldRank{static_cast<uint32_t>(rank)});
        CHECK(all.rank_of(WorldRank{static_cast<uint32_t>(rank)}) == Rank{rank});
    }
    CHECK_FALSE(all.has(4));
    CHECK_FALSE(all.has(-1));
    CHECK_FALSE(all.rank_of(WorldRank{4}).has_value());
}

TEST_CASE("in another group, each rank is the process at its place") {
    const Group group({WorldRank{6}, WorldRank{0}, WorldRank{3}});
    CHECK(group.size() == 3);
    CHECK(group.world(Rank{0}) == WorldRank{6});
    CHECK(group.world(Rank{2}) == WorldRank{3});
    CHECK(group.rank_of(WorldRank{0}) == Rank{1});
    CHECK(group.rank_of(WorldRank{6}) == Rank{0});
    CHECK_FALSE(group.rank_of(WorldRank{1}).has_value());
    CHECK_FALSE(group.rank_of(WorldRank{2}).has_value());
}

TEST_CASE("the first few processes are a group whose ranks have the same numbers, and others are not in it") {
    const Group group({WorldRank{0}, WorldRank{1}});
    CHECK(group.rank_of(WorldRank{1}) == Rank{1});
    CHECK_FALSE(group.rank_of(WorldRank{2}).has_value());
}

TEST_CASE("communicators have contexts of their own, and so have their collectives") {
    const Communicator world(comm::kWorldId, Group::of_all(3), WorldRank{2});
    const Communicator other(2, Group({WorldRank{2}, WorldRank{0}}), WorldRank{2});
    CHECK(world.rank() == Rank{2});
    CHECK(other.rank() == Rank{0});
    CHECK(other.size() == 2);
    const uint32_t contexts[] = {comm::kCopyContext, world.user_context(), world.collective_context(),
                                 other.user_context(), other.collective_context()};
    for (size_t i = 0; i < std::size(contexts); ++i)
        for (size_t j = 0; j < i; ++j)
            CHECK(contexts[i] != contexts[j]);
    for (const Communicator* each : {&world, &other}) {
        CHECK((each->user_context() & comm::kCollectiveContexts) == 0);
        CHECK((each->collective_context() & comm::kCollectiveContexts) != 0);
    }
}

// A communicator in which this rank, process 0, is the last: rank 0 is process 2, rank 1 is process 1.
TEST_CASE("messages go to the process at the rank's place, and statuses name the communicator's ranks") {
    OneRank rank;
    const Communicator reversed(5, Group({WorldRank{2}, WorldRank{1}, WorldRank{0}}), WorldRank{0});
    const auto task = [&](comm::Task::Kind kind, void* address, int peer) {
        return comm::Task{.kind = kind,
                          .peer = peer,
                          .tag = 1,
                          .comm = &reversed,
                          .operand = rank.operand(address, sizeof(uint32_t))};
    };
    uint32_t number = 4;
    uint64_t sent = rank.requests.start(task(comm::Task::Kind::kSend, &number, 0));
    CHECK(rank.channel(2).posted.size() == 1);
    CHECK(rank.channel(1).posted.empty());

    uint32_t got = 0;
    uint64_t received = rank.requests.start(task(comm::Task::Kind::kReceive, &got, comm::kAnySource));
    const uint32_t content = 9;
    rank.channel(2).send_inline(rank.world.user_context(), 1, std::as_bytes(std::span(&content, 1)));
    rank.channel(1).send_inline(reversed.user_context(), 1, std::as_bytes(std::span(&content, 1)));
    uint64_t names[] = {sent, received};
    int source = comm::kProcNull;
    const auto settle = [&](size_t index, const comm::Request& done) {
        if (index == 1)
            source = done.arrived().source;
    };
    CHECK(must(rank.requests.complete({names, comm::Order{}, comm::Requests::Need::kAll, false, true}, settle)));
    CHECK(source == 1); // of the other communicator's message nothing
    CHECK(got == 9);
}

TEST_SUITE_END();
