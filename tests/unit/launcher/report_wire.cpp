// What a node tells the head of what its ranks wait for, also when it is nonsense.
#include "report_wire.hpp"
#include "hang_table.hpp"
#include "hanging_ranks.hpp"
#include "support/unit.hpp"

#include <random>

namespace gpurun::test::report_wire {

using namespace launcher;

TEST_SUITE_BEGIN("report wire");

namespace {

constexpr uint32_t kRanks = 3;

RankReport full() {
    RankReport rank = has(receiving(1), 2, 8);
    rank.threads[0].awaited.push_back(receives(2));
    rank.threads[0].number = 5;
    rank.threads[0].moved = 42;
    rank.threads[0].settled = false; // the head finds that out
    rank.unawaited.push_back(sends(1));
    rank.unawaited[0].topic = wait_report::Topic::kUnawaited;
    rank.unawaited[0].since_ns = 2 * kSecondNs;
    rank.end.unawaited = 4;
    return rank;
}

std::string table_of(const RankReport& report) {
    return format_hangs({report, computing(), computing()}, 10 * kSecondNs, "a test");
}

} // namespace

TEST_CASE("a report arrives whole") {
    const auto got = read_report(as_message({7, 2, 99, full()}), kRanks);
    REQUIRE(got);
    CHECK(got->number == 7);
    CHECK(got->rank == 2);
    CHECK(got->now_ns == 99);
    CHECK(got->report.threads.at(0).moved == 42);
    CHECK(table_of(got->report) == table_of(full()));
}

TEST_CASE("a rank that has not answered is told of, too") {
    RankReport silent;
    silent.presence = RankReport::Presence::kReady;
    silent.since_ns = kSecondNs;
    silent.system = std::string(500, 'x');
    silent.stopped = true;
    const auto got = read_report(as_message({1, 0, 0, silent}), kRanks);
    REQUIRE(got);
    CHECK(got->report.presence == silent.presence);
    CHECK(got->report.since_ns == kSecondNs);
    CHECK(got->report.stopped);
    CHECK(got->report.system.size() < 100);
}

TEST_CASE("times are moved to another clock, and none to before it began") {
    RankReport report = full();
    shift_times(report, 3 * kSecondNs);
    CHECK(report.threads[0].since_ns == 4 * kSecondNs);
    CHECK(report.unawaited[0].since_ns == 5 * kSecondNs);
    CHECK(report.threads[0].awaited[0].since_ns == 0); // not known
    shift_times(report, -100 * kSecondNs);
    CHECK(report.threads[0].since_ns == 1);
}

TEST_CASE("what no node sends is refused, whatever it is") {
    const std::string good = as_message({1, 0, 0, full()});
    CHECK_FALSE(read_report(good, 0)); // no such rank
    for (const int64_t time_ns : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
        CHECK_FALSE(read_report(as_message({1, 0, time_ns, full()}), kRanks));
        RankReport early = full();
        early.threads[0].since_ns = time_ns;
        CHECK_FALSE(read_report(as_message({1, 0, 0, early}), kRanks));
    }
    for (size_t bytes = 0; bytes < good.size(); ++bytes)
        if (const auto got = read_report(good.substr(0, bytes), kRanks))
            CHECK(got->report.answered()); // it breaks off after an entry: what had come before is sound
    CHECK_FALSE(read_report(good.substr(0, good.size() - 1), kRanks));
    CHECK_FALSE(read_report(good + "x", kRanks));
    std::mt19937 random(1);
    for (int round = 0; round < 20'000; ++round) {
        std::string damaged = good;
        for (int i = 0; i < 3; ++i)
            damaged[random() % damaged.size()] = static_cast<char>(random());
        if (auto got = read_report(damaged, kRanks)) {
            shift_times(got->report, kSecondNs - got->now_ns);
            CHECK_FALSE(table_of(got->report).empty());
        }
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::report_wire
