// Who waits for whom, and what is said of it.
#include "deadlock.hpp"
#include "hanging_ranks.hpp"
#include "remarks.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <random>

namespace gpurun::test::deadlock {

using namespace launcher;

TEST_SUITE_BEGIN("deadlock");

namespace {

std::vector<uint32_t> cycle_of(const Deadlock& deadlock) {
    std::vector<uint32_t> ranks;
    for (size_t i = 0; i < deadlock.cycle.size(); ++i) {
        ranks.push_back(deadlock.cycle[i].rank);
        CHECK(deadlock.cycle[i].peer == deadlock.cycle[(i + 1) % deadlock.cycle.size()].rank);
    }
    return ranks;
}
using Ranks = std::vector<uint32_t>;

bool says(const WaitReports& ranks, const std::string& what) {
    const std::vector<std::string> remarks = find_remarks(ranks);
    const bool said = std::any_of(remarks.begin(), remarks.end(),
                                  [&](const auto& each) { return each.find(what) != std::string::npos; });
    if (!said)
        for (const std::string& remark : remarks)
            MESSAGE(remark);
    return said;
}

} // namespace

TEST_CASE("ranks that wait in a circle are deadlocked, and who waits for them follows") {
    const auto found = find_deadlocks({receiving(1), receiving(2), receiving(0), receiving(1), receiving(3)});
    REQUIRE(found.size() == 1);
    CHECK(cycle_of(found[0]) == Ranks{0, 1, 2});
    CHECK(found[0].followers == Ranks{3, 4});
    CHECK(found[0].cycle[0].call == "gpurun_recv");
    CHECK(found[0].cycle[0].entry.tag == 7);
}

TEST_CASE("one rank that computes can still save all that wait for it") {
    CHECK(find_deadlocks({receiving(1), receiving(2), computing()}).empty());
    CHECK(find_deadlocks({receiving(1), receiving(0), computing()}).size() == 1);
}

TEST_CASE("ranks that are not connected yet are not deadlocked") {
    Entry held_back = receives(1);
    held_back.flags |= wait_report::kHeldBack;
    CHECK(find_deadlocks({in_call("gpurun_recv", {held_back}), receiving(0)}).empty());
}

TEST_CASE("a shortest cycle is told") {
    const auto found = find_deadlocks(
        {in_call("gpurun_waitall", {receives(1), receives(3)}), receiving(2), receiving(0), receiving(0)});
    REQUIRE(found.size() == 1);
    CHECK(cycle_of(found[0]) == Ranks{0, 3});
    CHECK(found[0].followers == Ranks{1, 2});
}

TEST_CASE("two cycles that have nothing to do with each other are two") {
    const auto found = find_deadlocks({receiving(1), receiving(0), receiving(3), receiving(2)});
    REQUIRE(found.size() == 2);
    CHECK(cycle_of(found[0]) == Ranks{0, 1});
    CHECK(cycle_of(found[1]) == Ranks{2, 3});
}

TEST_CASE("a rank can wait for itself") {
    const auto found = find_deadlocks({in_call("gpurun_ssend", {sends(0)}), computing()});
    REQUIRE(found.size() == 1);
    CHECK(cycle_of(found[0]) == Ranks{0});
}

TEST_CASE("of several messages of which one is enough, all have to be hopeless") {
    const auto any = [](std::vector<Entry> awaited) { return in_call("gpurun_waitany", std::move(awaited), true); };
    CHECK(find_deadlocks({any({receives(1), receives(2)}), receiving(0), computing()}).empty());
    CHECK(find_deadlocks({any({receives(1), receives(2)}), receiving(0), receiving(0)}).size() == 1);
    CHECK(find_deadlocks({in_call("gpurun_waitall", {receives(1), receives(2)}), receiving(0), computing()}).size() ==
          1);
    RankReport cut = any({receives(1)});
    cut.threads[0].number = 40; // others may be anything
    CHECK(find_deadlocks({cut, receiving(0)}).empty());
}

TEST_CASE("a message of any source is hopeless once every other rank is") {
    CHECK(find_deadlocks({receiving(wait_report::kAnySource), receiving(0), computing()}).empty());
    CHECK(find_deadlocks({receiving(wait_report::kAnySource), receiving(0), receiving(1)}).size() == 1);
}

TEST_CASE("what is matched goes on by itself") {
    for (const wait_report::State state :
         {wait_report::State::kRelay, wait_report::State::kEdge, wait_report::State::kCopying,
          wait_report::State::kTurn, wait_report::State::kDevice, wait_report::State::kNoRoom})
        CHECK(find_deadlocks({in_call("gpurun_send", {in_state(sends(1), state)}), receiving(0)}).empty());
}

TEST_CASE("a thread that does not wait may help, and so may one that is not listed") {
    RankReport two = receiving(1);
    two.threads.push_back(ThreadReport{101, "", 0, false, 0, {}, 0, false, false});
    two.end.threads = 2;
    CHECK(find_deadlocks({two, receiving(0)}).empty());
    RankReport cut = receiving(1);
    cut.end.threads = 20;
    CHECK(find_deadlocks({cut, receiving(0)}).empty());
}

TEST_CASE("a wait that was seen only once is no deadlock yet") {
    RankReport fresh = receiving(1);
    fresh.threads[0].settled = false;
    CHECK(find_deadlocks({fresh, receiving(0)}).empty());
    CHECK(find_remarks({fresh, fresh, fresh}).empty());
    CHECK(says({fresh, receiving(0)}, "rank 1 waits for rank 0, which is in gpurun_recv()"));
}

TEST_CASE("a rank that does not answer may do anything") {
    RankReport silent;
    silent.presence = RankReport::Presence::kNoAnswer;
    silent.stopped = true;
    CHECK(find_deadlocks({receiving(1), silent}).empty());
    CHECK(says({receiving(1), silent}, "rank 0 waits for rank 1, which is stopped"));
}

TEST_CASE("gpurun_finalize() waits for all, and who waits for a rank there waits for ever") {
    const RankReport leaving = [] {
        RankReport rank = in_call("gpurun_finalize", {leaves(1)});
        rank.end.phase = wait_report::Phase::kFinalizing;
        return rank;
    }();
    CHECK(find_deadlocks({leaving, receiving(0)}).size() == 1);
    CHECK(says({leaving, receiving(0)},
               "rank 1 waits for rank 0 (gpurun_recv, tag 7), which has called gpurun_finalize() and will not send"));
    CHECK(says({leaving, in_call("gpurun_send", {sends(0)})}, "and will not receive"));
}

TEST_CASE("an unexpected message that nearly matches is named") {
    CHECK(says({computing(), has(receiving(0), 0, 8, 48)},
               "rank 1 waits for tag 7 from rank 0, and has an unexpected message with tag 8 from rank 0 (48 bytes)"));
    CHECK(says({computing(), has(receiving(0), 2, 7), computing()}, "an unexpected message with tag 7 from rank 2"));
    CHECK(says({computing(), has(receiving(wait_report::kAnySource), 0, 8)}, "waits for tag 7 from any rank"));
    for (const std::string& remark : find_remarks({computing(), has(receiving(0), 2, 9), computing()}))
        CHECK(remark.find("unexpected message") == std::string::npos); // neither its tag nor its source
}

TEST_CASE("who is not in a collective that others wait in is named") {
    Entry part = receives(2);
    part.flags = wait_report::kCollective;
    const RankReport there = in_call("gpurun_barrier", {part});
    CHECK(says({there, there, computing(), there},
               "gpurun_barrier: ranks 0-1,3 wait in it; rank 2 is not in a gpurun call"));
    CHECK(says({there, there, receiving(0), there}, "rank 2 waits in gpurun_recv()"));
}

TEST_CASE("the rank that all others wait for in the end is named") {
    CHECK(says({receiving(1), receiving(2), computing(), receiving(2)},
               "ranks 0-1,3 wait, directly or through others, for rank 2, which is not in a gpurun call"));
    CHECK(says({in_call("gpurun_waitany", {receives(1), receives(2)}, true), receiving(2), computing()},
               "ranks 0-1 wait for rank 2"));
}

TEST_CASE("what is left can never be removed, whatever waits for whatever") {
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        WaitReports ranks;
        const int size = 1 + static_cast<int>(random() % 9);
        for (int rank = 0; rank < size; ++rank) {
            std::vector<Entry> awaited;
            for (size_t i = random() % 4; i > 0; --i)
                awaited.push_back(receives(static_cast<int>(random() % static_cast<unsigned>(size + 1)) - 1));
            ranks.push_back(awaited.empty() ? computing() : in_call("gpurun_waitsome", awaited, random() % 2 == 0));
        }
        // Whoever can go on does, and gives all that others want of it; the others are in exactly one deadlock.
        std::vector<int> of(ranks.size(), 0);
        for (const Deadlock& deadlock : find_deadlocks(ranks)) {
            for (const uint32_t rank : cycle_of(deadlock))
                ++of[rank];
            for (const uint32_t rank : deadlock.followers)
                ++of[rank];
        }
        for (size_t rank = 0; rank < ranks.size(); ++rank) {
            CHECK(of[rank] <= 1);
            const ThreadReport& thread = ranks[rank].threads[0];
            const auto lost = [&](const Entry& entry) {
                if (entry.peer >= 0)
                    return of[static_cast<size_t>(entry.peer)] == 1;
                return std::all_of(of.begin(), of.end(), [](int each) { return each == 1; });
            };
            const bool stuck =
                thread.waits() && (thread.any ? std::all_of(thread.awaited.begin(), thread.awaited.end(), lost)
                                              : std::any_of(thread.awaited.begin(), thread.awaited.end(), lost));
            CHECK(stuck == (of[rank] == 1));
        }
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::deadlock
