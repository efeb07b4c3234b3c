// Asking nodes that answer, answer late, or never.
#include "node_inquiry.hpp"
#include "hanging_ranks.hpp"
#include "support/unit.hpp"

namespace gpurun::test::node_inquiry {

using namespace launcher;
using namespace platform;

TEST_SUITE_BEGIN("node inquiry");

namespace {

using Presence = RankReport::Presence;

// Three ranks, of which the first ones are asked.
struct Asked {
    explicit Asked(size_t asked = 3) {
        inquiry = must(NodeInquiry::create({*loop,
                                            [this, asked](uint32_t number) {
                                                question = number;
                                                std::vector<bool> awaited(3);
                                                std::fill_n(awaited.begin(), asked, true);
                                                return awaited;
                                            },
                                            [](uint32_t) {
                                                RankReport report;
                                                report.presence = Presence::kNoAnswer;
                                                return report;
                                            },
                                            [this](const WaitReports& reports) {
                                                seen = reports;
                                                ++times;
                                            }},
                                           3));
    }
    void answer(uint32_t rank, uint64_t moved = 0) {
        RankReport report = receiving((static_cast<int>(rank) + 1) % 3);
        report.threads[0].settled = false;
        report.threads[0].moved = moved;
        inquiry->take(rank, question, report);
    }
    // The second question is put after a pause.
    void await_question(uint32_t number) {
        while (question != number)
            REQUIRE_OK(loop->run_once());
    }

    std::unique_ptr<EventLoop> loop = must(EventLoop::create());
    std::unique_ptr<NodeInquiry> inquiry;
    uint32_t question = 0;
    WaitReports seen;
    int times = 0;
};

} // namespace

TEST_CASE("what lasts from the first look to the second is settled, and what moves is not") {
    Asked job;
    job.inquiry->start(2);
    for (uint32_t rank = 0; rank < 3; ++rank)
        job.answer(rank);
    CHECK(job.times == 0);
    job.await_question(2);
    job.answer(0);
    job.answer(1, 5);
    job.answer(2);
    REQUIRE(job.times == 1);
    CHECK(job.seen[0].threads.at(0).settled);
    CHECK_FALSE(job.seen[1].threads.at(0).settled);
    CHECK(job.seen[2].threads.at(0).settled);
    CHECK_FALSE(job.inquiry->under_way());
}

TEST_CASE("nobody is asked a second time before all have answered the first time") {
    Asked job;
    job.inquiry->start(2);
    job.answer(0);
    job.answer(1);
    CHECK(job.question == 1);
    job.answer(1); // said twice
    CHECK(job.question == 1);
    job.answer(2);
    job.await_question(2);
}

TEST_CASE("who is not asked, is given up, or does not answer is described by what is known") {
    Asked job(2);
    job.inquiry->start(1);
    job.answer(2); // was not asked
    job.answer(0);
    CHECK(job.times == 0);
    SUBCASE("given up") { job.inquiry->give_up(1); }
    SUBCASE("silent") {
        while (job.times == 0)
            REQUIRE_OK(job.loop->run_once());
    }
    REQUIRE(job.times == 1);
    CHECK(job.seen[0].answered());
    CHECK(job.seen[1].presence == Presence::kNoAnswer);
    CHECK(job.seen[2].presence == Presence::kNoAnswer);
    job.inquiry->give_up(1);
    job.answer(1); // late
    CHECK(job.times == 1);
}

TEST_CASE("who was silent is asked again, and not waited for") {
    Asked job;
    job.inquiry->start(2);
    job.answer(0);
    job.answer(1);
    job.await_question(2); // the third one has not answered
    job.answer(0);
    CHECK(job.times == 0);
    job.answer(1);
    CHECK(job.times == 1);
    CHECK(job.seen[2].presence == Presence::kNoAnswer);
}

TEST_CASE("an answer to an earlier question is dropped") {
    Asked job(1);
    job.inquiry->start(1);
    job.answer(0);
    job.inquiry->start(1);
    job.inquiry->take(0, 1, computing());
    CHECK(job.times == 1);
    job.answer(0);
    CHECK(job.times == 2);
    CHECK(job.seen[0].threads.at(0).waits());
}

TEST_CASE("with nobody to ask it is over at once") {
    Asked job(0);
    job.inquiry->start(1);
    CHECK(job.times == 1);
}

TEST_SUITE_END();

} // namespace gpurun::test::node_inquiry
