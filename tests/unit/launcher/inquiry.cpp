// Asking ranks that answer, answer late, or never.
#include "inquiry.hpp"
#include "hanging_ranks.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <gpurun/version.h>

namespace gpurun::test::inquiry {

using namespace launcher;
using namespace platform;

TEST_SUITE_BEGIN("inquiry");

namespace {

using Presence = RankReport::Presence;

// Two ranks of sockets, the launcher between them.
struct Asked : Assembly::Observer {
    Asked()
        : loop(must(EventLoop::create())), segment(must(JobSegment::create(2, 2))),
          assembly(*loop, segment, *this, {0, 1}) {
        inquiry = must(Inquiry::create({*loop, assembly,
                                        [](uint32_t) {
                                            RankReport report;
                                            report.presence = Presence::kNoAnswer;
                                            return report;
                                        },
                                        [this](const WaitReports& reports) {
                                            seen = reports;
                                            ++times;
                                        }},
                                       2, 2));
        for (uint32_t rank = 0; rank < 2; ++rank) {
            auto [ours, theirs] = must(MessageSocket::pair());
            assembly.connect(rank, std::move(ours));
            ranks.push_back(std::move(theirs));
        }
        for (uint32_t rank = 0; rank < 2; ++rank) {
            wire::Hello hello;
            hello.version = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;
            hello.layout = kLayout;
            hello.rank = static_cast<int32_t>(rank);
            say(rank, hello);
            say(rank, wire::Ready{});
        }
        while (next_question(0) || next_question(1)) {
        }
    }

    template <typename Message>
    void say(uint32_t rank, const Message& message) {
        REQUIRE_OK(ranks[rank].send(std::as_bytes(std::span(&message, 1))));
        assembly.hear(rank);
    }
    // Its number, or another message's that has one in its place; nothing if nothing has come.
    std::optional<uint32_t> next_question(uint32_t rank) {
        alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes{};
        const auto received = must(ranks[rank].try_receive(bytes));
        if (!received)
            return std::nullopt;
        wire::Ask ask;
        std::memcpy(&ask, bytes.data(), sizeof ask);
        return ask.number;
    }
    // In gpurun_recv() since `since_ns`.
    void answer(uint32_t rank, uint32_t number, int64_t since_ns) {
        wire::Answer thread{.number = number};
        thread.entry.topic = wait_report::Topic::kThread;
        thread.entry.call_it("gpurun_recv");
        thread.entry.since_ns = since_ns;
        thread.entry.number = 1;
        say(rank, thread);
        wire::Answer awaited{.number = number};
        awaited.entry = receives(1 - static_cast<int>(rank));
        say(rank, awaited);
        say(rank, wire::Answered{.number = number, .end = {.phase = wait_report::Phase::kRunning, .threads = 1}});
    }
    uint32_t await_question(uint32_t rank) {
        while (true) {
            if (const auto number = next_question(rank))
                return *number;
            REQUIRE_OK(loop->run_once());
        }
    }

    void rank_said_hello(uint32_t) override {}
    void rank_misbehaved(uint32_t rank, const std::string&) override { misbehaved.push_back(rank); }
    void versions_differ(uint32_t, const std::string&) override {}
    void rank_left_early(uint32_t) override {}
    void rank_aborted(uint32_t, int) override {}
    void rank_leaves(uint32_t, uint32_t) override {}
    bool rank_answered(uint32_t rank, const wire::Answer& said) override { return inquiry->take(rank, said); }
    bool rank_answered_all(uint32_t rank, const wire::Answered& said) override { return inquiry->finish(rank, said); }

    std::unique_ptr<EventLoop> loop;
    JobSegment segment;
    Assembly assembly;
    std::unique_ptr<Inquiry> inquiry;
    std::vector<MessageSocket> ranks;
    WaitReports seen;
    int times = 0;
    std::vector<uint32_t> misbehaved;
};

} // namespace

TEST_CASE("one look ends with the last answer") {
    Asked job;
    job.inquiry->start(1);
    job.answer(0, *job.next_question(0), 5);
    CHECK(job.times == 0);
    job.answer(1, *job.next_question(1), 6);
    REQUIRE(job.times == 1);
    CHECK_FALSE(job.inquiry->under_way());
    CHECK(job.seen[0].answered());
    CHECK(job.seen[1].threads.at(0).call == "gpurun_recv");
    CHECK_FALSE(job.seen[1].threads.at(0).settled);
    CHECK(job.misbehaved.empty());
}

TEST_CASE("two looks tell which waits are the same") {
    Asked job;
    job.inquiry->start(2);
    for (uint32_t rank = 0; rank < 2; ++rank)
        job.answer(rank, *job.next_question(rank), 5);
    CHECK(job.times == 0);
    job.answer(0, job.await_question(0), 5);
    job.answer(1, job.await_question(1), 7);
    REQUIRE(job.times == 1);
    CHECK(job.seen[0].threads.at(0).settled);
    CHECK_FALSE(job.seen[1].threads.at(0).settled);
}

TEST_CASE("who does not answer in time is given up, and its late answer is nobody's") {
    Asked job;
    job.inquiry->start(1);
    job.answer(0, *job.next_question(0), 5);
    while (job.times == 0)
        REQUIRE_OK(job.loop->run_once());
    CHECK(job.seen[0].answered());
    CHECK(job.seen[1].presence == Presence::kNoAnswer);
    job.answer(1, *job.next_question(1), 5);
    CHECK(job.misbehaved.empty());
    job.inquiry->start(1);
    CHECK(job.inquiry->under_way());
}

TEST_CASE("who ends is not waited for") {
    Asked job;
    job.inquiry->start(1);
    job.answer(0, *job.next_question(0), 5);
    job.inquiry->rank_ended(1);
    CHECK(job.times == 1);
}

TEST_CASE("an answer to a question that was never asked ends the job") {
    Asked job;
    job.say(1, wire::Answered{.number = 3});
    CHECK(job.misbehaved == std::vector<uint32_t>{1});
}

TEST_SUITE_END();

} // namespace gpurun::test::inquiry
