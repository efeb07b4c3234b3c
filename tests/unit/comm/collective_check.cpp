// Whether ranks have called a collective alike: what comes early, in time, and late, and what is told to whom.
#include "one_rank.hpp"

#include <algorithm>
#include <array>

using namespace gpurun;
using base::Collective;
using comm::Mismatch;
using comm::Rank;
using comm::Schedule;
using comm::Signature;
using gpurun::test::OneRank;
using gpurun::test::rank_settings;
using transfer::Record;
using transfer::RecordKind;

namespace {

const Signature kOwn = Signature(Collective::kBcast).with_bytes(16);
const Signature kOther = Signature(Collective::kAllreduce).with_elements(4, 7, 1);

base::Settings checking() {
    base::Settings settings = rank_settings();
    settings.check = true;
    return settings;
}

// Rank 0 of three, which waits for 16 bytes from rank 1.
struct Site {
    OneRank rank;
    std::array<std::byte, 16> buffer{};
    uint64_t name = 0;

    explicit Site(const base::Settings& settings = rank_settings()) : rank(3, settings) {}

    void build(Schedule& schedule) {
        schedule.set_received(schedule.receive_all(Rank{1}, 0, {buffer.data(), buffer.size(), {}}));
    }
    void call(const Signature& what = kOwn) {
        name = rank.schedules.start(what, rank.core.communicators().world(), {},
                                    [&](Schedule& schedule) { build(schedule); });
    }
    base::Result<size_t> run() { // a call that waits
        return rank.schedules.run(kOwn, rank.core.communicators().world(), {},
                                  [&](Schedule& schedule) { build(schedule); });
    }
    template <typename Payload>
    void come(uint32_t from, Collective kind, uint16_t sequence, const Signature& what, const Payload& payload) {
        Record record(RecordKind::kMessage, transfer::InlinePart::kProtocol);
        record.envelope = {rank.world.collective_context(), base::collective_tag(kind, sequence, 0), sizeof payload};
        record.sign(what.bits());
        rank.channel(from).arrive(record, std::as_bytes(std::span(&payload, 1)));
        (void)rank.look();
    }
    void come(uint32_t from, const Signature& what, uint16_t sequence = 0) {
        come(from, what.kind(), sequence, what, buffer);
    }
    const base::Error* error() {
        const comm::EngineLock lock(rank.core.mutex());
        const comm::Request* const request = rank.core.requests().find(name);
        return request->done() ? request->error() : nullptr;
    }
    size_t received() {
        const comm::EngineLock lock(rank.core.mutex());
        return rank.core.requests().find(name)->message_bytes();
    }
    bool done() {
        const comm::EngineLock lock(rank.core.mutex());
        return rank.core.requests().find(name)->done();
    }
    void end() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.core.requests().end(*rank.core.requests().find(name));
    }
    size_t notes_to(uint32_t peer, Collective kind) {
        const auto& posted = rank.channel(peer).posted;
        return static_cast<size_t>(std::count_if(posted.begin(), posted.end(), [&](const auto& each) {
            return base::collective_of(each.record.envelope.tag) == kind;
        }));
    }
    size_t mismatch_notes_to(uint32_t peer) { return notes_to(peer, Collective::kMismatchNote); }
    // A collective that is called alike, and goes well.
    void take_part(uint16_t sequence) {
        call();
        come(1, kOwn, sequence);
        CHECK(done());
        CHECK(error() == nullptr);
        end();
    }
    // The one that is under way returns what rank 2 has called, and the next one does not: it is said once.
    void check_told_once(uint16_t sequence) {
        come(1, kOwn, sequence);
        REQUIRE(error() != nullptr);
        CHECK(error()->detail.find("rank 2 called gpurun_allreduce()") == 0);
        end();
        take_part(static_cast<uint16_t>(sequence + 1));
    }
    void check_told_all() {
        CHECK(mismatch_notes_to(1) == 1);
        CHECK(mismatch_notes_to(2) == 1);
    }
};

} // namespace

TEST_SUITE_BEGIN("collective check");

TEST_CASE("a message of another call ends the collective, and all are told who has called what") {
    Site site;
    site.call();
    site.come(2, kOther);
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->status == base::Status::kCollective);
    CHECK(site.error()->detail.find("rank 0 called gpurun_bcast() of 16 bytes, and rank 2 called gpurun_allreduce()") ==
          0);
    site.check_told_all();
    site.end();
}

TEST_CASE("a message of another call that has come before this rank's is seen as this one begins") {
    Site site;
    site.come(1, kOther);
    site.call();
    (void)site.rank.look();
    REQUIRE(site.error() != nullptr);
    site.check_told_all();
    site.end();
}

TEST_CASE("two calls that differ, and have come before this rank's, are told of") {
    Site site;
    site.come(1, kOwn);
    site.come(2, kOther);
    site.call();
    (void)site.rank.look();
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->detail.find("rank 1 called") == 0);
    site.check_told_all();
    site.end();
}

TEST_CASE("who is told of a mismatch tells nobody") {
    Site site;
    site.call();
    site.come(1, Collective::kMismatchNote, 0, kOther, Mismatch{{kOther.bits(), 0, {1}}, {kOwn.bits(), 0, {2}}});
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->detail.find("rank 1 called gpurun_allreduce()") == 0);
    CHECK(site.mismatch_notes_to(1) == 0);
    CHECK(site.mismatch_notes_to(2) == 0);
    site.end();
}

TEST_CASE("a message that comes when the collective is over is told of by the next one") {
    Site site;
    site.take_part(0);
    site.come(2, kOther);
    site.check_told_all();
    site.call();
    site.check_told_once(1);
}

TEST_CASE("what is found of a collective that is over, while the next one runs, that one returns") {
    Site site;
    site.take_part(0);
    site.call();
    site.come(2, kOther);
    site.check_told_once(1);
}

TEST_CASE("a rank that is ahead, and has not sent what is waited for, is asked once what it has called") {
    Site site;
    SUBCASE("as it gets ahead") { site.call(); }
    SUBCASE("when it was ahead before this rank's call") {}
    site.come(1, kOwn, 1);
    site.come(2, kOwn, 1); // nothing is expected of it
    if (site.name == 0)
        site.call();
    site.come(1, kOwn, 2);
    CHECK(site.notes_to(1, Collective::kCallNote) == 1);
    CHECK(site.notes_to(2, Collective::kCallNote) == 0);
    CHECK_FALSE(site.done());
    site.come(1, kOwn, 0); // it had both under way
    CHECK(site.done());
    CHECK(site.error() == nullptr);
    site.end();
}

TEST_CASE("a rank that is asked what it has called tells all if that was something else") {
    Site site;
    site.take_part(0);
    site.come(2, Collective::kCallNote, 0, kOwn, comm::CallNote{});
    CHECK(site.mismatch_notes_to(2) == 0);
    site.come(2, Collective::kCallNote, 0, kOther, comm::CallNote{});
    site.check_told_all();
}

TEST_CASE("a collective that fails on a rank is told to all, and ends on each of them") {
    Site site;
    const auto fail_with = [&](base::Status status) {
        return site.rank.schedules.run(kOwn, site.rank.core.communicators().world(), {}, [&](Schedule& schedule) {
            schedule.local([status](const transfer::Operand&) { return base::error(status, "there is none"); });
        });
    };
    CHECK_STATUS(fail_with(base::Status::kMemory), base::Status::kMemory);
    site.check_told_all();
    CHECK_STATUS(fail_with(base::Status::kPeerLost), base::Status::kPeerLost); // they know
    site.check_told_all();

    Site other;
    other.call();
    other.come(1, Collective::kMismatchNote, 0, kOwn, Mismatch::failure(kOwn.bits(), {1}, base::Status::kMemory));
    REQUIRE(other.error() != nullptr);
    CHECK(other.error()->status == base::Status::kCollective);
    CHECK(other.error()->detail.find("rank 1 could not carry out gpurun_bcast() of 16 bytes: ") == 0);
    other.end();
}

TEST_CASE("what others have failed in before this rank calls it starts nothing, and has received nothing") {
    const auto fails = [](Site& site) {
        site.come(1, Collective::kMismatchNote, 0, kOwn, Mismatch::failure(kOwn.bits(), {1}, base::Status::kFinalized));
    };
    Site site;
    fails(site);
    site.call();
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->status == base::Status::kFinalized);
    CHECK(site.received() == 0);
    site.end();

    Site waiting;
    fails(waiting);
    CHECK_STATUS(waiting.run(), base::Status::kFinalized);
}

TEST_CASE("a failure that may be everybody's own ends those who wait with that error, and is nothing to others") {
    for (const base::Status status : {base::Status::kUnsupported, base::Status::kFinalized}) {
        Site site;
        const Mismatch failure = Mismatch::failure(kOwn.bits(), {1}, status);
        site.call();
        site.come(1, Collective::kMismatchNote, 0, kOwn, failure);
        REQUIRE(site.error() != nullptr);
        CHECK(site.error()->status == status);
        site.end();
        site.take_part(1);
        site.come(2, Collective::kMismatchNote, 1, kOwn, failure);
        site.take_part(2);
    }
}

TEST_CASE("a rank that is asked while its own call is under way tells all if that is another one") {
    Site site;
    site.call();
    site.come(2, Collective::kCallNote, 0, kOwn, comm::CallNote{});
    CHECK_FALSE(site.done());
    CHECK(site.mismatch_notes_to(2) == 0);
    site.come(2, Collective::kCallNote, 0, kOther, comm::CallNote{});
    REQUIRE(site.error() != nullptr);
    site.check_told_all();
    site.end();
}

TEST_CASE("with the check, nothing starts before all ranks have called the same") {
    Site site(checking());
    site.come(1, Collective::kCallNote, 0, kOwn, comm::CallNote{.sends = 1, .receives = 0, .sent_bytes = 16});
    site.call();
    site.come(1, kOwn);
    CHECK_FALSE(site.done());
    site.come(2, Collective::kCallNote, 0, kOwn, comm::CallNote{});
    CHECK(site.done());
    CHECK(site.error() == nullptr);
    site.end();
}

TEST_CASE("with the check, a block that nobody sends is found") {
    Site site(checking());
    site.call();
    site.come(1, Collective::kCallNote, 0, kOwn, comm::CallNote{});
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->detail.find("rank 1 sends 0 bytes to rank 0 by gpurun_bcast() of 16 bytes, where that expects "
                                    "16") == 0);
    site.end();
}

TEST_SUITE_END();
