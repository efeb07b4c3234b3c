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
    // How the request has ended; none while it is open.
    std::optional<Status> end_of(uint64_t name) {
        Status status = Status::kOk;
        const auto settle = [&](size_t, const comm::Request& done) {
            if (done.error() != nullptr)
                status = done.error()->status;
        };
        const bool done =
            must(rank.requests.complete({{&name, 1}, comm::Order{}, comm::Requests::Need::kAll, false, true}, settle));
        return done ? std::optional(status) : std::nullopt;
    }
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
