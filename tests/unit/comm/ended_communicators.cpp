// What follows when a communicator has been freed: what came for it is dropped, and the process that gave its id is
// told.
#include "one_rank.hpp"

using namespace gpurun;
using base::WorldRank;
using comm::Communicator;
using comm::ContextIdParts;
using comm::Group;
using gpurun::test::OneRank;

namespace {

constexpr ContextIdParts kIdParts(3);
constexpr uint32_t kId = kIdParts.make(WorldRank{1}, 4, 9); // given by process 1

class Freeing {
  public:
    uint64_t make(uint32_t id) {
        const comm::EngineLock lock(rank.core.mutex());
        return table().add(*table().reserve(), id, std::make_shared<const Group>(Group::of_all(3)));
    }
    const Communicator& operator[](uint64_t handle) { return *table().find(handle); }
    void free(uint64_t handle) {
        {
            const comm::EngineLock lock(rank.core.mutex());
            table().close(handle);
        }
        (void)rank.look();
    }
    void send(uint32_t peer, uint32_t context, int tag = 1) {
        const uint64_t content = 7;
        rank.channel(peer).send_inline(context, tag, std::as_bytes(std::span(&content, 1)));
        (void)rank.look();
    }
    bool has_message(uint32_t context) {
        const comm::EngineLock lock(rank.core.mutex());
        const Group all = Group::of_all(3);
        return rank.core.matcher().peek(comm::Pattern::of(all, context, comm::kAnySource, comm::kAnyTag)) != nullptr;
    }
    // How often the peer was told that the communicator with the id has ended here.
    size_t told(uint32_t peer, uint32_t id) {
        size_t count = 0;
        for (const auto& each : rank.channel(peer).posted)
            if (each.record.envelope.context == comm::kLetGoContext &&
                each.record.envelope.tag == static_cast<int32_t>(id))
                ++count;
        return count;
    }
    comm::CommunicatorTable& table() { return rank.core.communicators(); }

    OneRank rank;
};

} // namespace

TEST_SUITE_BEGIN("ended communicators");

TEST_CASE("messages that wait for a communicator are dropped when it ends, and those of others stay") {
    Freeing test;
    const uint64_t handle = test.make(kId);
    const uint32_t users = test[handle].user_context(), collectives = test[handle].collective_context();
    const uint32_t worlds = test.rank.world.user_context();
    test.send(1, users);
    test.send(2, users, 5);
    test.send(1, collectives);
    test.send(1, worlds);
    CHECK(test.has_message(users));
    test.free(handle);
    CHECK_FALSE(test.has_message(users));
    CHECK_FALSE(test.has_message(collectives));
    CHECK(test.has_message(worlds));
}

TEST_CASE(
    "what comes for an ended communicator is dropped, and what comes for the next with its index waits for that") {
    Freeing test;
    const uint64_t handle = test.make(kId);
    const uint32_t next = kIdParts.make(WorldRank{1}, 5, 9);
    test.free(handle);
    test.send(2, 2 * kId);
    test.send(2, 2 * next);
    CHECK_FALSE(test.has_message(2 * kId));
    CHECK(test.has_message(2 * next));
}

TEST_CASE("who gave the id is told once, when nothing uses the communicator any more, and nobody else is") {
    Freeing test;
    const uint64_t handle = test.make(kId);
    const Communicator& comm = test[handle];
    uint64_t content = 0;
    uint64_t receive = test.rank.requests.start({.kind = comm::Task::Kind::kReceive,
                                                 .peer = 2,
                                                 .tag = 1,
                                                 .comm = &comm,
                                                 .operand = test.rank.operand(&content, sizeof content)});
    test.free(handle);
    CHECK(test.told(1, kId) == 0);
    test.send(2, 2 * kId); // for the receive that is still there
    CHECK(content == 7);
    CHECK(test.told(1, kId) == 0);
    uint64_t names[] = {receive};
    CHECK(test::must(test.rank.requests.complete({names, comm::Order{}}, [](size_t, const comm::Request&) {})));
    (void)test.rank.look();
    (void)test.rank.look();
    CHECK(test.told(1, kId) == 1);
    CHECK(test.told(2, kId) == 0);
}

TEST_CASE("an id that this process has given comes again once the others have told") {
    Freeing test;
    comm::ContextIds& ids = test.table().ids();
    const uint32_t id = ids.propose();
    const WorldRank members[] = {{0}, {2}};
    ids.give(id, members);
    const uint64_t handle = test.make(id);
    test.free(handle);
    CHECK(ids.in_use() == 1);
    test.rank.channel(2).send_inline(comm::kLetGoContext, static_cast<int32_t>(id), {});
    (void)test.rank.look();
    CHECK(ids.in_use() == 0);
    CHECK_FALSE(test.has_message(comm::kLetGoContext));
}

TEST_SUITE_END();
