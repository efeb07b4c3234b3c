// Loans whose borrower has died after it had lent them on.
#include "one_rank.hpp"

#include <chrono>
#include <thread>

using namespace gpurun;
using base::Status;
using comm::Request;
using comm::Task;
using gpurun::test::must;
using gpurun::test::OneRank;
using transfer::LoanAnswer;
using transfer::LoanNotice;
using transfer::LoanPart;
using transfer::Record;
using transfer::RecordKind;

namespace {

constexpr size_t kLentBytes = 64;
constexpr transfer::LoanOrigin kOrigin{5, 0, 2};

// Rank 0, which has lent memory to rank 1.
struct Lender {
    OneRank rank;
    void* const memory = must(rank.device().allocate(kLentBytes));
    uint64_t name = 0;

    Lender() {
        Task task{.kind = Task::Kind::kLend, .peer = 1, .comm = &rank.world};
        task.operand = rank.operand(memory, kLentBytes);
        name = rank.requests.make(task);
        Request& request = *rank.requests.find(name);
        request.lent.loan.kind = transfer::LoanKind::kExclusive;
        request.lent.origin = kOrigin;
        Request* const started[] = {&request};
        rank.requests.start_again(started);
    }
    void answer(LoanAnswer::What what) {
        const uint64_t serial = rank.channel(1).posted.front().record.serial;
        rank.channel(1).arrive(Record(RecordKind::kToSend, LoanPart::kProtocol, serial).with(LoanAnswer{.what = what}));
    }
    void notice_death() {
        rank.channel(1).die();
        REQUIRE(rank.look());
    }
    std::optional<Status> end() { return rank.end_of(name); }
};

// The notices of loans that this rank has posted to a peer.
std::vector<LoanNotice> notices(OneRank& rank, uint32_t peer) {
    std::vector<LoanNotice> found;
    for (const auto& each : rank.channel(peer).posted)
        if (each.record.kind == RecordKind::kNotice && each.record.protocol == LoanPart::kProtocol)
            found.push_back(each.record.as<LoanNotice>());
    return found;
}

// Processes are looked at from time to time.
template <typename Condition>
bool comes_true(const Condition& condition) {
    for (int i = 0; i < 10'000; ++i) {
        if (condition())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

void arrive(OneRank& rank, uint32_t from, LoanNotice::What what, uint64_t number) {
    rank.channel(from).arrive(Record(RecordKind::kNotice, LoanPart::kProtocol).with(LoanNotice{what, number, kOrigin}));
}

} // namespace

TEST_SUITE_BEGIN("orphaned loans");

TEST_CASE("a loan that was lent on ends once everybody has answered") {
    Lender lender;
    lender.answer(LoanAnswer::What::kBorrowed);
    lender.answer(LoanAnswer::What::kLentOn);
    CHECK_FALSE(lender.end().has_value());
    lender.notice_death();
    CHECK_FALSE(lender.end().has_value());
    const std::vector<LoanNotice> asked = notices(lender.rank, 2);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].what == LoanNotice::What::kWhoHas);
    CHECK(asked[0].origin.same_loan(kOrigin));
    CHECK(asked[0].origin.depth == kOrigin.depth);
    arrive(lender.rank, 2, LoanNotice::What::kHasNone, asked[0].serial + 1); // another question's
    CHECK_FALSE(lender.end().has_value());
    arrive(lender.rank, 2, LoanNotice::What::kHasNone, asked[0].serial);
    CHECK(lender.end() == Status::kPeerLost);
}

TEST_CASE("who dies before it answers has nothing either") {
    Lender lender;
    lender.answer(LoanAnswer::What::kLentOn);
    lender.notice_death();
    CHECK_FALSE(lender.end().has_value());
    lender.rank.channel(2).die();
    CHECK(lender.end() == Status::kPeerLost);
}

TEST_CASE("a loan that was not lent on ends with its borrower, and nobody is asked") {
    Lender lender;
    lender.answer(LoanAnswer::What::kBorrowed);
    lender.notice_death();
    CHECK(lender.end() == Status::kPeerLost);
    CHECK(notices(lender.rank, 2).empty());
}

TEST_CASE("a borrower that is lost has its loan until its process has ended") {
    for (const auto& answers : {std::vector<LoanAnswer::What>{}, {LoanAnswer::What::kBorrowed}}) {
        Lender lender;
        for (const LoanAnswer::What each : answers)
            lender.answer(each);
        lender.rank.channel(1).ended = false;
        lender.notice_death();
        CHECK_FALSE(lender.end().has_value());
        lender.rank.channel(1).ended = true;
        CHECK(comes_true([&] { return lender.end() == Status::kPeerLost; }));
        CHECK(notices(lender.rank, 2).empty());
    }
}

TEST_CASE("a borrower that is lost can give back, if it lives") {
    Lender lender;
    lender.answer(LoanAnswer::What::kBorrowed);
    lender.rank.channel(1).ended = false;
    lender.notice_death();
    CHECK_FALSE(lender.end().has_value());
    lender.answer(LoanAnswer::What::kGivenBack);
    CHECK(lender.end() == Status::kOk);
    CHECK(comes_true([&] { return lender.rank.look(), lender.rank.core.resources().ending == 0; }));
}

TEST_CASE("a loan that was lent on is not back while anybody who is lost may have it") {
    Lender lender;
    lender.answer(LoanAnswer::What::kLentOn);
    lender.rank.channel(2).ended = false;
    lender.rank.channel(2).die();
    lender.notice_death();
    CHECK_FALSE(lender.end().has_value());
    lender.rank.channel(2).ended = true;
    CHECK(comes_true([&] { return lender.end() == Status::kPeerLost; }));
}

TEST_CASE("a loan that had come back before the death has come back") {
    Lender lender;
    lender.answer(LoanAnswer::What::kLentOn);
    lender.answer(LoanAnswer::What::kGivenBack);
    lender.notice_death();
    CHECK(lender.end() == Status::kOk);
    CHECK(notices(lender.rank, 2).empty());
}

TEST_CASE("who is asked answers once it has nothing of the loan, and not to the dead") {
    OneRank rank;
    bool has = true;
    std::vector<transfer::LoanOrigin> looked_for;
    rank.orphaned.on_ask([&](const transfer::LoanOrigin& loan) {
        looked_for.push_back(loan);
        return has;
    });
    arrive(rank, 1, LoanNotice::What::kWhoHas, 3);
    arrive(rank, 2, LoanNotice::What::kWhoHas, 4);
    REQUIRE(rank.look());
    REQUIRE(looked_for.size() == 2);
    CHECK(looked_for[0].same_loan(kOrigin));
    CHECK(notices(rank, 1).empty());
    rank.channel(1).die();
    REQUIRE(rank.look());
    has = false;
    REQUIRE(rank.look());
    CHECK(notices(rank, 1).empty());
    const std::vector<LoanNotice> answers = notices(rank, 2);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].what == LoanNotice::What::kHasNone);
    CHECK(answers[0].serial == 4);
    has = true;
    CHECK_FALSE(rank.look());
}

TEST_SUITE_END();
