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

    void call(const Signature& what = kOwn) {
        name = rank.schedules.start(what, rank.core.communicators().world(), {}, [&](Schedule& schedule) {
            schedule.receive_all(Rank{1}, 0, {buffer.data(), buffer.size(), {}});
        });
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
    bool done() {
        const comm::EngineLock lock(rank.core.mutex());
        return rank.core.requests().find(name)->done();
    }
    void end() {
        const comm::EngineLock lock(rank.core.mutex());
        rank.core.requests().end(*rank.core.requests().find(name));
    }
    size_t mismatch_notes_to(uint32_t peer) {
        const auto& posted = rank.channel(peer).posted;
        return static_cast<size_t>(std::count_if(posted.begin(), posted.end(), [](const auto& each) {
            return base::collective_of(each.record.envelope.tag) == Collective::kMismatchNote;
        }));
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
    site.call();
    site.come(1, kOwn);
    CHECK(site.done());
    CHECK(site.error() == nullptr);
    site.end();
    site.come(2, kOther);
    site.check_told_all();
    site.call();
    site.come(1, kOwn, 1);
    REQUIRE(site.error() != nullptr);
    CHECK(site.error()->detail.find("rank 2 called gpurun_allreduce()") == 0);
    site.end();
    site.call();
    site.come(1, kOwn, 2);
    CHECK(site.done());
    CHECK(site.error() == nullptr); // said once
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
