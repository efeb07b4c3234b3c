// Steps that are done as they are added: which they are, and that the others go on where these have come to.
#include "one_rank.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <thread>

using namespace gpurun;
using base::Collective;
using comm::Rank;
using comm::Schedule;
using comm::Signature;
using gpurun::test::OneRank;

namespace {

using Numbers = std::array<uint32_t, 2>;

struct Rig {
    OneRank rank;
    Numbers own{1, 2}, sum{};
    const Signature signature = Signature(Collective::kAllreduce).with_elements(2, 1, 1);

    static Schedule::Buffer whole(Numbers& numbers) {
        return {reinterpret_cast<std::byte*>(numbers.data()), sizeof numbers, {}, std::nullopt};
    }
    // The peer's part of this rank's next collective, or of one that is so many ahead.
    void arrive(uint32_t peer, const Numbers& content, Signature of, uint16_t ahead = 0) {
        transfer::Record record(transfer::RecordKind::kMessage, transfer::ProtocolId{1});
        const int tag = base::collective_tag(of.kind(), static_cast<uint16_t>(done + ahead), 0);
        record.envelope = {rank.world.collective_context(), tag, sizeof content};
        record.sign(of.bits());
        rank.channel(peer).arrive(record, std::as_bytes(std::span(content)));
    }
    // Sends to both peers, receives from both, combines: then how many steps were kept.
    base::Result<size_t> run() {
        kept = SIZE_MAX;
        auto result = rank.schedules.run(signature, rank.world, rank.operand(own.data(), sizeof own),
                                         [this](Schedule& schedule) { build(schedule); });
        ++done;
        return result;
    }
    void build(Schedule& schedule) {
        const Schedule::Buffer second = schedule.scratch(sizeof own), third = schedule.scratch(sizeof own);
        schedule.send(Rank{1}, 0, whole(own));
        schedule.send(Rank{2}, 0, whole(own));
        const auto one = schedule.receive_all(Rank{1}, 0, second);
        if (then)
            then();
        const auto other = schedule.receive_all(Rank{2}, 0, third);
        const Schedule::Buffer operands[] = {whole(own), second, third};
        schedule.reduce({base::Type::kUint32, base::Op::kSum}, whole(sum), operands, {one, other});
        kept = schedule.steps().size();
    }
    std::function<void()> then;
    size_t kept = 0;
    uint16_t done = 0; // collectives
};

} // namespace

TEST_SUITE_BEGIN("immediate steps");

TEST_CASE("a collective whose messages are there is done as its steps are added, and says what it is") {
    Rig rig;
    rig.arrive(1, {10, 20}, rig.signature);
    rig.arrive(2, {100, 200}, rig.signature);
    CHECK(static_cast<bool>(rig.run()));
    CHECK(rig.kept == 0);
    CHECK(rig.sum == Numbers{111, 222});
    for (const uint32_t peer : {1u, 2u}) {
        REQUIRE(rig.rank.channel(peer).posted.size() == 1);
        CHECK(rig.rank.channel(peer).posted[0].record.signature() == rig.signature.bits());
    }
}

TEST_CASE("from a message that does not come on, steps are run, with what the ones before have received") {
    Rig rig;
    rig.arrive(1, {10, 20}, rig.signature);
    bool late = false;
    rig.then = [&] { late = true; };
    std::thread peer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const comm::EngineLock lock(rig.rank.core.mutex());
        rig.arrive(2, {100, 200}, rig.signature);
        rig.rank.core.note_change(); // whoever sleeps looks
    });
    CHECK(static_cast<bool>(rig.run()));
    peer.join();
    CHECK(late);
    CHECK(rig.kept == 2);
    CHECK(rig.sum == Numbers{111, 222});
    CHECK(rig.rank.channel(1).posted.size() == 1);
}

TEST_CASE("messages that came before the call are used, also where the peers are several collectives ahead") {
    Rig rig;
    for (uint16_t ahead = 0; ahead < 3; ++ahead)
        for (const uint32_t peer : {1u, 2u})
            rig.arrive(peer, {ahead, peer}, rig.signature, ahead);
    CHECK(rig.rank.look());
    for (uint32_t turn = 0; turn < 3; ++turn) {
        CHECK(static_cast<bool>(rig.run()));
        CHECK(rig.kept == 0);
        CHECK(rig.sum == Numbers{1 + 2 * turn, 5});
    }
    CHECK_FALSE(rig.rank.core.matcher().has_posted());
}

TEST_CASE("a message of another call is not taken for one of this: the ranks are told") {
    Rig rig;
    const Signature other = Signature(Collective::kAllreduce).with_elements(1, 1, 1);
    rig.arrive(1, {10, 20}, rig.signature);
    rig.arrive(2, {100, 200}, other);
    const auto ran = rig.run();
    REQUIRE_FALSE(ran);
    CHECK(ran.error().status == base::Status::kCollective);
    CHECK(rig.kept == 2);
    CHECK(rig.sum == Numbers{});
    CHECK(rig.rank.channel(1).posted.size() == 2); // its part, and the note
}

TEST_CASE("while a request is under way that no thread minds, steps are run, which makes progress for it") {
    Rig rig;
    uint32_t into = 0;
    const uint64_t name = rig.rank.requests.start({.kind = comm::Task::Kind::kReceive,
                                                   .peer = 1,
                                                   .tag = 7,
                                                   .comm = &rig.rank.world,
                                                   .operand = rig.rank.operand(&into, sizeof into)});
    for (const uint32_t peer : {1u, 2u})
        rig.arrive(peer, {10, 20}, rig.signature);
    CHECK(static_cast<bool>(rig.run()));
    CHECK(rig.kept == 5);
    CHECK(rig.sum == Numbers{21, 42});
    const uint32_t sent = 3;
    rig.rank.channel(1).send_inline(rig.rank.world.user_context(), 7, std::as_bytes(std::span(&sent, 1)));
    for (const uint32_t peer : {1u, 2u})
        rig.arrive(peer, {10, 20}, rig.signature);
    CHECK(static_cast<bool>(rig.run()));
    CHECK(into == sent);
    CHECK(rig.rank.end_of(name) == base::Status::kOk);
}

TEST_CASE("nothing is done where a rank of the communicator has died") {
    Rig rig;
    rig.rank.channel(2).die();
    CHECK(rig.rank.look());
    const auto ran = rig.run();
    REQUIRE_FALSE(ran);
    CHECK(ran.error().status == base::Status::kPeerLost);
    CHECK(rig.rank.channel(1).posted.empty());
}

TEST_SUITE_END();
