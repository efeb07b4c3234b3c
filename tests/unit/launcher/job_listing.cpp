// What gpurun jobs tells of ranks, how that travels, and what it looks like.
#include "job_listing.hpp"
#include "hanging_ranks.hpp"
#include "job_table.hpp"
#include "support/unit.hpp"

namespace gpurun::test::job_listing {

using namespace launcher;

TEST_SUITE_BEGIN("job listing");

namespace {

constexpr int64_t kNowNs = kSecondNs * 13 + 340'000'000;

// As it stands below.
std::string lines_of(std::string text) { return text.insert(0, 1, '\n'); }

Entry lends(int peer, wait_report::State state) {
    Entry entry = in_state(sends(peer, 9), state);
    entry.flags = wait_report::kLoan;
    entry.since_ns = kSecondNs * 3;
    entry.bytes = 4096;
    return entry;
}

RankReport lending() {
    RankReport report = computing();
    report.unawaited = {lends(1, wait_report::State::kLent), sends(1), lends(1, wait_report::State::kUnmatched)};
    report.end.unawaited = 5;
    return report;
}

ListedJob job_of(const WaitReports& reports) {
    ListedJob job;
    job.name = "train";
    job.started_by = "gpurun";
    job.pid = 70;
    job.size = static_cast<uint32_t>(reports.size());
    for (const RankReport& report : reports) {
        ListedRank& rank = job.ranks.emplace_back(listed(report, kNowNs));
        rank.rank = static_cast<uint32_t>(job.ranks.size() - 1);
        rank.pid = 71;
        rank.program = "./app";
        rank.device = "GPU 0000:41:00.0";
    }
    return job;
}

std::string state_of(RankReport::Presence presence, bool stopped = false) {
    RankReport report;
    report.presence = presence;
    report.stopped = stopped;
    return listed(report, kNowNs).state;
}

} // namespace

TEST_CASE("each presence has its words") {
    using Presence = RankReport::Presence;
    CHECK(state_of(Presence::kNoGpurun) == "before gpurun_init");
    CHECK(state_of(Presence::kJoining) == "in gpurun_init");
    CHECK(state_of(Presence::kNoAnswer) == "does not answer");
    CHECK(state_of(Presence::kNoAnswer, true) == "stopped");
    CHECK(state_of(Presence::kFinalized) == "after gpurun_finalize");
    CHECK(state_of(Presence::kEnded) == "ended");
    CHECK(listed(receiving(1), kNowNs).state == "waits");
    CHECK(listed(computing(), kNowNs).state == "outside gpurun");
    CHECK(listed(in_call("gpurun_memcpy", {}), kNowNs).state == "in a call");
}

TEST_CASE("a wait has its call, its time and its words") {
    const ListedRank rank = listed(receiving(1), kNowNs);
    REQUIRE(rank.waits.size() == 1);
    CHECK(rank.waits[0].call == "gpurun_recv");
    CHECK(rank.waits[0].ms == 12'340);
    CHECK(rank.waits[0].words.peer == "1");
    CHECK(rank.waits[0].waits_for == "a matching message");
}

TEST_CASE("of many waits the first four are told, and the number of the others") {
    RankReport report = in_call("gpurun_waitall", std::vector<Entry>(6, receives(1)));
    report.threads[0].number = 40;
    const ListedRank rank = listed(report, kNowNs);
    CHECK(rank.waits.size() == 4);
    CHECK(rank.more_waits == 36);
}

TEST_CASE("a loan has bytes, holder and age, and other sends are none") {
    const ListedRank rank = listed(lending(), kNowNs);
    REQUIRE(rank.loans.size() == 2);
    CHECK(rank.loans[0].bytes == "4096");
    CHECK(rank.loans[0].to == "1");
    CHECK(rank.loans[0].ms == 10'340);
    CHECK(rank.loans[0].borrowed);
    CHECK_FALSE(rank.loans[1].borrowed);
    CHECK(rank.more_requests == 2);
}

TEST_CASE("a job is the same after it has travelled") {
    const ListedJob job = job_of({receiving(1), lending()});
    const std::string text = job_as_json(job);
    auto back = job_from_json(text);
    REQUIRE_OK(back);
    CHECK(job_as_json(*back) == text);
}

TEST_CASE("what is no job is refused") {
    const std::string text = job_as_json(job_of({receiving(1)}));
    CHECK_FALSE(job_from_json(""));
    CHECK_FALSE(job_from_json("7"));
    CHECK_FALSE(job_from_json(R"({"job":"a"})"));
    for (size_t length = 0; length < text.size(); ++length)
        CHECK_FALSE(job_from_json(text.substr(0, length)));
}

TEST_CASE("a name cannot disturb a terminal") {
    ListedJob job = job_of({receiving(1)});
    job.name = "a\033[2Jb";
    auto back = job_from_json(job_as_json(job));
    REQUIRE_OK(back);
    CHECK(back->name == "a?[2Jb");
}

TEST_CASE("jobs are tables") {
    const ListedJob jobs[] = {job_of({receiving(1), lending()})};
    const SilentJob silent[] = {{"other", "it does not answer"}};
    CHECK(lines_of(format_jobs(jobs, silent)) == R"(
job train: 2 ranks, started by gpurun, watched over by process 70
rank  program  pid  node  device            state           call         waited  does  peer  tag  bytes  waits for
   0  ./app     71     0  GPU 0000:41:00.0  waits           gpurun_recv  12.3 s  recv     1    7     64  a matching message
   1  ./app     71     0  GPU 0000:41:00.0  outside gpurun  -            -       -        -    -      -  -
loans:
lender  bytes  to  tag  lent for  state
     1   4096   1    9  10.3 s    borrowed
     1   4096   1    9  10.3 s    not borrowed yet
and 2 more requests, of which some may be loans

job other: it does not answer
)");
    CHECK(format_jobs({}, {}) == "no jobs of this user run on this machine\n");
}

TEST_CASE("many jobs that are silent for one reason are one line") {
    std::vector<SilentJob> silent = {{"a", "it was killed"}, {"b", "busy"}, {"c", "it was killed"}};
    CHECK(format_jobs({}, silent) == "job a: it was killed\njob b: busy\njob c: it was killed\n");
    silent.insert(silent.end(), {{"d", "it was killed"}, {"e", "it was killed"}});
    CHECK(format_jobs({}, silent) == "job a and 3 more: it was killed\njob b: busy\n");
}

TEST_SUITE_END();

} // namespace gpurun::test::job_listing
