// Steps of small device messages in a stream that are done as they are added: which they are, and that the others go on
// where these have come to.
#include "comm/collective/barrier.hpp"
#include "one_rank.hpp"
#include "transfer/protocol/mailbox.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

using namespace gpurun;
using base::Collective;
using comm::Rank;
using comm::Schedule;
using comm::Signature;
using gpurun::test::EmulatedRank;
using gpurun::test::must;
using gpurun::test::OneRank;
using gpurun::test::settings_with_mailboxes;
using transfer::Direction;
using transfer::MailboxPart;
using transfer::Slot;
using transfer::SlotClass;

namespace {

using Numbers = std::array<uint32_t, 2>;
constexpr uint32_t kRanks = 3;

// Rank 0, which has a stream and device memory; ranks 1 and 2 have mailboxes, and are the test.
struct MailRig {
    EmulatedRank one{must(platform::JobSegment::create(kRanks, 2)), 1, settings_with_mailboxes()};
    EmulatedRank two{must(platform::JobSegment::create(kRanks, 2)), 2, settings_with_mailboxes()};
    OneRank rank{kRanks, settings_with_mailboxes()};
    device::Stream stream, peers;
    std::byte *own, *got, *theirs; // of Numbers
    const Signature signature = Signature(Collective::kAllreduce).with_elements(2, 1, 1);

    MailRig() {
        rank.put_behind(1, one);
        rank.put_behind(2, two);
        stream = must(rank.device().create_stream());
        peers = must(rank.device().create_stream());
        own = static_cast<std::byte*>(must(rank.device().allocate(sizeof(Numbers))));
        got = static_cast<std::byte*>(must(rank.device().allocate(kRanks * sizeof(Numbers))));
        theirs = static_cast<std::byte*>(must(rank.device().allocate(kRanks * sizeof(Numbers))));
        fill(own, {1, 2});
        fill(got, {});
        const comm::EngineLock lock(rank.core.mutex());
        for (uint32_t peer = 1; peer < kRanks; ++peer)
            REQUIRE(rank.core.peer(base::WorldRank{peer}).part<MailboxPart>().open());
    }
    static void fill(std::byte* at, const Numbers& numbers) {
        std::memcpy(at, numbers.data(), sizeof numbers); // emulated: the CPU reaches it
    }
    Numbers read(const std::byte* at) {
        Numbers numbers{};
        must(rank.device().synchronize(stream));
        std::memcpy(numbers.data(), at, sizeof numbers);
        return numbers;
    }
    Schedule::Buffer buffer(std::byte* at) {
        return {at, sizeof(Numbers), must(rank.device().describe(at, sizeof(Numbers))), std::nullopt};
    }
    // The peer's part of this rank's next collective, or of one that is so many ahead.
    void arrive(uint32_t peer, const Numbers& content, uint16_t ahead = 0) {
        transfer::Record record(transfer::RecordKind::kMessage, MailboxPart::kProtocol);
        const int tag = base::collective_tag(signature.kind(), static_cast<uint16_t>(done + ahead), 0);
        record.envelope = {rank.world.collective_context(), tag, sizeof content};
        const Slot slot{SlotClass::kSmallMail, true, next_slot++, 0, transfer::kSlotStep};
        record.with(slot).sign(signature.bits());
        rank.channel(peer).arrive(record);
        put(peer, content, slot);
    }
    // What the peer's kernel does.
    void put(uint32_t peer, const Numbers& content, const Slot& slot) {
        std::byte* const from = theirs + peer * sizeof content;
        fill(from, content);
        device::Mail mail = rank.core.resources().workspace.view().mail(peer, rank.channel(peer).edges(Direction::kIn),
                                                                        slot, sizeof content);
        mail.ticket = rank.core.resources().workspace.view().ticket(peer, transfer::Side::kSource,
                                                                    {SlotClass::kLargeMail, true, 0, 0, 0});
        must(rank.device().mails()->put_mail(mail, from, peers));
        must(rank.device().synchronize(peers));
    }
    template <typename Build>
    base::Result<size_t> run(const Build& build) {
        kept = SIZE_MAX;
        transfer::Operand order = rank.operand(own, sizeof(Numbers), stream);
        auto result = rank.schedules.run(signature, rank.world, order, [&](Schedule& schedule) {
            build(schedule);
            kept = schedule.steps().size();
        });
        ++done;
        return result;
    }
    // Sends to both peers, receives from both, combines.
    base::Result<size_t> allreduce() {
        return run([&](Schedule& schedule) {
            const Schedule::Buffer second = schedule.scratch(sizeof(Numbers)),
                                   third = schedule.scratch(sizeof(Numbers));
            schedule.send(Rank{1}, 0, buffer(own));
            schedule.send(Rank{2}, 0, buffer(own));
            const auto first = schedule.receive_all(Rank{1}, 0, second);
            if (then)
                then();
            const auto other = schedule.receive_all(Rank{2}, 0, third);
            const Schedule::Buffer operands[] = {buffer(own), second, third};
            schedule.reduce({base::Type::kUint32, base::Op::kSum}, buffer(got), operands, {first, other});
        });
    }
    std::vector<gpurun::test::ScriptedChannel::Posted>& posted(uint32_t peer) { return rank.channel(peer).posted; }
    // The peer has read all that was put for it.
    void read_all(uint32_t peer) {
        for (const auto& each : posted(peer))
            rank.channel(peer).edges(Direction::kOut).signal_now(transfer::Edge::kBackward, each.record.as<Slot>());
        posted(peer).clear();
    }
    std::function<void()> then;
    size_t kept = 0;   // steps
    uint16_t done = 0; // collectives
    uint16_t next_slot = 0;
};

} // namespace

TEST_SUITE_BEGIN("immediate mails");

TEST_CASE("a collective whose mails are there is done as its steps are added, by one kernel in the stream") {
    MailRig rig;
    rig.arrive(1, {10, 20});
    rig.arrive(2, {100, 200});
    CHECK(static_cast<bool>(rig.allreduce()));
    CHECK(rig.kept == 0);
    CHECK(rig.read(rig.got) == Numbers{111, 222});
    for (const uint32_t peer : {1u, 2u}) {
        REQUIRE(rig.posted(peer).size() == 1);
        CHECK(rig.posted(peer)[0].record.protocol == MailboxPart::kProtocol);
        CHECK(rig.posted(peer)[0].record.signature() == rig.signature.bits());
        CHECK(rig.rank.channel(peer)
                  .edges(Direction::kIn)
                  .reached(transfer::Edge::kBackward,
                           {SlotClass::kSmallMail, true, static_cast<uint16_t>(peer - 1), 0, transfer::kSlotStep}));
    }
    CHECK(rig.rank.core.resources().exchanges.empty());
}

TEST_CASE("from a mail that does not come on, steps are run, with the mails that have come before") {
    MailRig rig;
    rig.arrive(1, {10, 20});
    std::thread peer;
    rig.then = [&] {
        peer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const comm::EngineLock lock(rig.rank.core.mutex());
            rig.arrive(2, {100, 200});
            rig.rank.core.note_change(); // whoever sleeps looks
        });
    };
    CHECK(static_cast<bool>(rig.allreduce()));
    peer.join();
    CHECK(rig.kept == 2);
    CHECK(rig.read(rig.got) == Numbers{111, 222});
    CHECK(rig.posted(1).size() == 1);
}

TEST_CASE("mails that came before the call are used, also where the peers are several collectives ahead") {
    MailRig rig;
    for (uint16_t ahead = 0; ahead < 3; ++ahead)
        for (const uint32_t peer : {1u, 2u})
            rig.arrive(peer, {ahead, peer}, ahead);
    CHECK(rig.rank.look());
    for (uint32_t turn = 0; turn < 3; ++turn) {
        CHECK(static_cast<bool>(rig.allreduce()));
        CHECK(rig.kept == 0);
        CHECK(rig.read(rig.got) == Numbers{1 + 2 * turn, 5});
    }
    CHECK_FALSE(rig.rank.core.matcher().has_posted());
}

TEST_CASE("where a record finds no room, its mail's slot is that of the next mail, and no step is done twice") {
    MailRig rig;
    rig.arrive(1, {10, 20});
    rig.arrive(2, {100, 200});
    rig.rank.channel(2).room = 0;
    rig.then = [&] { rig.rank.channel(2).room = SIZE_MAX; };
    CHECK(static_cast<bool>(rig.allreduce()));
    CHECK(rig.kept == 4); // all but the first send
    CHECK(rig.read(rig.got) == Numbers{111, 222});
    CHECK(rig.posted(1).size() == 1);
    REQUIRE(rig.posted(2).size() == 1);
    CHECK(rig.posted(2)[0].record.as<Slot>().index == rig.posted(1)[0].record.as<Slot>().index);
    for (const uint32_t peer : {1u, 2u})
        rig.read_all(peer);
}

TEST_CASE("where the result is in host memory, mails that have come are reduced there") {
    MailRig rig;
    rig.arrive(1, {10, 20});
    Numbers result{};
    CHECK(static_cast<bool>(rig.run([&](Schedule& schedule) {
        const Schedule::Buffer other = schedule.scratch(sizeof result);
        schedule.send(Rank{1}, 0, rig.buffer(rig.own));
        const auto come = schedule.receive_all(Rank{1}, 0, other);
        const Schedule::Buffer operands[] = {rig.buffer(rig.own), other};
        schedule.reduce({base::Type::kUint32, base::Op::kSum}, rig.buffer(reinterpret_cast<std::byte*>(result.data())),
                        operands, {come});
    })));
    CHECK(rig.kept == 1);
    must(rig.rank.device().synchronize(rig.stream));
    CHECK(result == Numbers{11, 22});
}

TEST_CASE("what comes is written where it belongs, unless something that is put is read there") {
    MailRig rig;
    for (const bool into_own : {false, true}) {
        rig.arrive(1, {10, 20});
        std::byte* const into = into_own ? rig.own : rig.got;
        CHECK(static_cast<bool>(rig.run([&](Schedule& schedule) {
            const auto sent = schedule.send(Rank{2}, 0, rig.buffer(rig.own));
            schedule.receive_all(Rank{1}, 0, rig.buffer(into), {sent});
        })));
        CHECK(rig.kept == (into_own ? 1 : 0));
        CHECK(rig.read(into) == Numbers{10, 20});
    }
}

TEST_CASE("a rank that has to say only that it has come sends mails of nothing, and its stream waits for the others'") {
    MailRig rig;
    const Slot slot{SlotClass::kSmallMail, true, 0, 0, transfer::kSlotStep};
    for (const uint32_t peer : {1u, 2u}) {
        transfer::Record record(transfer::RecordKind::kMessage, MailboxPart::kProtocol);
        record.envelope = {rig.rank.world.collective_context(), base::collective_tag(rig.signature.kind(), 0, 0), 8};
        rig.rank.channel(peer).arrive(record.with(slot).sign(rig.signature.bits()));
    }
    rig.put(1, {}, slot);
    CHECK(static_cast<bool>(rig.run([](Schedule& schedule) { comm::build_barrier(schedule, true); })));
    CHECK(rig.kept == 0);
    const device::Event end = must(rig.rank.device().create_event());
    must(rig.rank.device().record(end, rig.stream));
    CHECK_FALSE(must(rig.rank.device().query(end))); // of rank 2 there is the record only
    rig.put(2, {}, slot);
    must(rig.rank.device().synchronize(rig.stream));
    must(rig.rank.device().destroy_event(end));
}

TEST_SUITE_END();
