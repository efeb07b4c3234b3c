// What ends when a rank dies, and what does not.
#include "one_rank.hpp"
#include "support/gate.hpp"
#include "transfer/protocol/eager.hpp"

using namespace gpurun;
using base::Status;
using base::WorldRank;
using comm::Group;
using comm::kAnySource;
using comm::Pattern;
using comm::Task;
using gpurun::test::must;
using gpurun::test::OneRank;
using transfer::Edge;
using transfer::Slot;
using transfer::SlotClass;

namespace {

constexpr int kTag = 3;

struct Survivor {
    OneRank rank;
    uint32_t number = 0;

    uint64_t start(Task::Kind kind, int peer, bool synchronous = false) {
        return rank.requests.start({.kind = kind,
                                    .synchronous = synchronous,
                                    .peer = peer,
                                    .tag = kTag,
                                    .comm = &rank.world,
                                    .operand = rank.operand(&number, sizeof number)});
    }
    std::optional<Status> end_of(uint64_t name) { return rank.end_of(name); }
    Pattern pattern(int source) { return Pattern::of(rank.world.group(), rank.world.user_context(), source, kTag); }
    comm::PeerFailure& failure() { return rank.failure; }
};

// A message in an eager buffer, whose source's stream signals the slot's edge.
struct EagerArrival {
    Slot slot{SlotClass::kEager, true, 0, 0, transfer::kSlotStep};

    explicit EagerArrival(OneRank& rank) {
        transfer::Record record(transfer::RecordKind::kMessage, transfer::EagerPart::kProtocol);
        record.envelope = {rank.world.user_context(), kTag, 64};
        rank.channel(1).arrive(record.with(slot));
    }
};

// A blocking receive into `memory` in the stream's order: it is enqueued when this returns.
base::Result<void> receive_in_stream(OneRank& rank, void* memory, device::Stream stream) {
    const transfer::Operand into = rank.operand(memory, 64, stream);
    comm::LocalReceive home;
    comm::PostedReceive receive(rank.core.resources(), home, into,
                                Pattern::of(rank.world.group(), rank.world.user_context(), 1, kTag));
    comm::PostedReceive* const receives[] = {&receive};
    return rank.messages.complete({}, receives);
}

} // namespace

TEST_SUITE_BEGIN("peer failure");

TEST_CASE("what needs the dead rank fails, and what needs another goes on") {
    Survivor survivor;
    survivor.rank.channel(1).room = 1;
    const uint64_t unmatched = survivor.start(Task::Kind::kSend, 1, true);
    const uint64_t without_room = survivor.start(Task::Kind::kSend, 1);
    const uint64_t posted = survivor.start(Task::Kind::kReceive, 1);
    const uint64_t from_other = survivor.start(Task::Kind::kReceive, 2);
    const uint64_t from_any = survivor.start(Task::Kind::kReceive, kAnySource);
    survivor.rank.channel(1).die();
    CHECK(survivor.end_of(unmatched) == Status::kPeerLost);
    CHECK(survivor.end_of(without_room) == Status::kPeerLost);
    CHECK(survivor.end_of(posted) == Status::kPeerLost);
    CHECK_FALSE(survivor.end_of(from_other).has_value());
    CHECK_FALSE(survivor.end_of(from_any).has_value());
    survivor.rank.channel(2).die();
    CHECK(survivor.end_of(from_other) == Status::kPeerLost);
    CHECK(survivor.end_of(from_any) == Status::kPeerLost);
}

TEST_CASE("with a dead rank nothing starts") {
    Survivor survivor;
    survivor.rank.channel(1).die();
    REQUIRE(survivor.rank.look());
    CHECK(survivor.end_of(survivor.start(Task::Kind::kSend, 1)) == Status::kPeerLost);
    CHECK(survivor.end_of(survivor.start(Task::Kind::kReceive, 1)) == Status::kPeerLost);
    CHECK(survivor.rank.channel(1).posted.empty());
    const Pattern pattern = survivor.pattern(1);
    CHECK_STATUS(survivor.rank.messages.probe(pattern, false, nullptr), Status::kPeerLost);
}

TEST_CASE("what the dead had published before is received") {
    Survivor survivor;
    const uint32_t content = 12;
    survivor.rank.channel(1).send_inline(survivor.rank.world.user_context(), kTag,
                                         std::as_bytes(std::span(&content, 1)));
    survivor.rank.channel(1).die();
    REQUIRE(survivor.rank.look());
    CHECK(survivor.end_of(survivor.start(Task::Kind::kReceive, 1)) == Status::kOk);
    CHECK(survivor.number == 12);
}

TEST_CASE("while a rank is dying, what it cuts short is not known yet") {
    Survivor survivor;
    const uint64_t posted = survivor.start(Task::Kind::kReceive, 1);
    CHECK_FALSE(survivor.failure().is_losing());
    survivor.rank.channel(1).lives = transfer::Liveness::kDying;
    CHECK(survivor.failure().is_losing());
    CHECK_FALSE(survivor.end_of(posted).has_value());
    survivor.rank.channel(1).die();
    CHECK(survivor.end_of(posted) == Status::kPeerLost);
    CHECK_FALSE(survivor.failure().is_losing());
}

TEST_CASE("for a dead rank that no stream has waited for, no edges are made") {
    Survivor survivor;
    auto& channel = survivor.rank.channel(1);
    channel.lives = transfer::Liveness::kDead;
    REQUIRE(survivor.rank.look());
    CHECK(survivor.rank.core.peer(WorldRank{1}).lost());
    CHECK(channel.open_fence(transfer::Direction::kIn) == nullptr);
    CHECK(channel.open_fence(transfer::Direction::kOut) == nullptr);
}

TEST_CASE("a pattern is hopeless once nobody of its group is left to send") {
    Survivor survivor;
    const Group pair({WorldRank{1}, WorldRank{0}});
    const Group alone({WorldRank{0}});
    const Pattern in_pair = Pattern::of(pair, 9, kAnySource, kTag);
    const Pattern of_self = Pattern::of(alone, 9, kAnySource, kTag);
    CHECK_FALSE(survivor.failure().is_hopeless(in_pair));
    CHECK_FALSE(survivor.failure().any_lost(pair));
    survivor.rank.channel(1).die();
    REQUIRE(survivor.rank.look());
    CHECK(survivor.failure().is_hopeless(in_pair));
    CHECK(survivor.failure().is_hopeless(survivor.pattern(1)));
    CHECK_FALSE(survivor.failure().is_hopeless(survivor.pattern(2)));
    CHECK_FALSE(survivor.failure().is_hopeless(survivor.pattern(kAnySource))); // rank 2 lives
    CHECK_FALSE(survivor.failure().is_hopeless(of_self));                      // it sends to itself
    CHECK(survivor.failure().any_lost(pair));
    CHECK_FALSE(survivor.failure().any_lost(Group({WorldRank{0}, WorldRank{2}})));
    CHECK(survivor.failure().member_died(pair).detail.find("rank 1") != std::string::npos);
}

TEST_CASE("a rank that has called gpurun_finalize() sends nothing new, and what it has sent is received") {
    Survivor survivor;
    const uint64_t posted = survivor.start(Task::Kind::kReceive, 1);
    const uint64_t from_other = survivor.start(Task::Kind::kReceive, 2);
    const uint64_t from_any = survivor.start(Task::Kind::kReceive, kAnySource);
    const uint32_t content = 12;
    const auto bytes = std::as_bytes(std::span(&content, 1));
    survivor.rank.channel(1).send_inline(survivor.rank.world.user_context(), kTag, bytes);
    survivor.rank.channel(1).send_inline(survivor.rank.world.user_context(), kTag + 1, bytes);
    survivor.rank.channel(1).steps = 1;
    REQUIRE(survivor.rank.look());
    CHECK(survivor.end_of(posted) == Status::kOk); // it was sent before
    CHECK(survivor.end_of(survivor.start(Task::Kind::kReceive, 1)) == Status::kFinalized);
    CHECK_FALSE(survivor.end_of(from_other).has_value());
    CHECK_FALSE(survivor.end_of(from_any).has_value()); // rank 2 may send
    const Pattern next = Pattern::of(survivor.rank.world.group(), survivor.rank.world.user_context(), 1, kTag + 1);
    CHECK(must(survivor.rank.messages.probe(next, false, nullptr)).has_value());
    CHECK_STATUS(survivor.rank.messages.probe(survivor.pattern(1), true, nullptr), Status::kFinalized);
    CHECK_FALSE(must(survivor.rank.messages.probe(survivor.pattern(1), false, nullptr)).has_value()); // a poll
    survivor.rank.channel(2).steps = 1;
    CHECK(survivor.end_of(from_other) == Status::kFinalized);
    CHECK(survivor.end_of(from_any) == Status::kFinalized);
    survivor.rank.channel(1).die(); // while it waits for the others
    REQUIRE(survivor.rank.look());
    CHECK(survivor.end_of(survivor.start(Task::Kind::kReceive, 1)) == Status::kPeerLost);
}

TEST_CASE("a send that waits for a receive ends when its target will post none") {
    Survivor survivor;
    const uint64_t waiting = survivor.start(Task::Kind::kSend, 1, true);
    REQUIRE(survivor.rank.channel(1).posted.size() == 1);
    const transfer::Record& message = survivor.rank.channel(1).posted[0].record;
    REQUIRE(message.serial != 0);
    survivor.rank.channel(1).arrive({transfer::RecordKind::kUnwanted, message.protocol, message.serial});
    CHECK(survivor.end_of(waiting) == Status::kFinalized);
    survivor.rank.channel(1).arrive({transfer::RecordKind::kUnwanted, message.protocol, message.serial}); // too late
    REQUIRE(survivor.rank.look());
}

TEST_CASE("once no more calls are made, the sources of what nobody receives are told") {
    Survivor survivor;
    const auto arrive = [&](uint64_t serial) {
        transfer::Record record(transfer::RecordKind::kMessage, transfer::EagerPart::kProtocol, serial);
        record.envelope = {survivor.rank.world.user_context(), kTag, 64};
        survivor.rank.channel(1).arrive(record.with(Slot{SlotClass::kEager, true, 0, 0, transfer::kSlotStep}));
        (void)survivor.rank.look();
    };
    const auto told = [&] {
        std::vector<uint64_t> serials;
        for (const auto& each : survivor.rank.channel(1).posted)
            if (each.record.kind == transfer::RecordKind::kUnwanted)
                serials.push_back(each.record.serial);
        return serials;
    };
    arrive(7); // the matcher keeps it
    CHECK(told().empty());
    {
        const comm::EngineLock lock(survivor.rank.core.mutex());
        survivor.rank.progress.note_calls_are_over();
    }
    CHECK(told() == std::vector<uint64_t>{7});
    arrive(8);
    arrive(0); // whose source waits for nothing
    CHECK(told() == std::vector<uint64_t>{7, 8});
}

TEST_CASE("a stream that a death has cut short says so once") {
    OneRank rank;
    const device::Stream stream = must(rank.device().create_stream());
    const device::Stream other = must(rank.device().create_stream());
    void* const memory = must(rank.device().allocate(64));
    const EagerArrival arrival(rank);
    REQUIRE_OK(receive_in_stream(rank, memory, stream));
    CHECK_FALSE(must(rank.device().query(stream))); // it waits for the source's stream
    REQUIRE_OK(rank.failure.check(stream));
    rank.channel(1).die();
    REQUIRE(rank.look());
    must(rank.device().synchronize(stream)); // released
    CHECK(rank.failure.cut_short());
    CHECK_FALSE(rank.failure.is_stuck(stream));
    REQUIRE_OK(rank.failure.check(other));
    CHECK_STATUS(rank.failure.check(stream), Status::kPeerLost);
    REQUIRE_OK(rank.failure.check(stream));
}

TEST_CASE("a message whose source's stream had come before the death is whole") {
    OneRank rank;
    const device::Stream stream = must(rank.device().create_stream());
    void* const memory = must(rank.device().allocate(64));
    const EagerArrival arrival(rank);
    REQUIRE_OK(receive_in_stream(rank, memory, stream));
    rank.channel(1).edges(transfer::Direction::kIn).signal_now(Edge::kForward, arrival.slot);
    rank.channel(1).die();
    REQUIRE(rank.look());
    must(rank.device().synchronize(stream));
    REQUIRE_OK(rank.failure.check(stream));
    CHECK_FALSE(rank.failure.cut_short());
}

TEST_SUITE_END();
