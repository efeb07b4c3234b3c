// What is printed of ranks that hang, word for word; and what is believed of what they say.
#include "hang_table.hpp"
#include "base/collectives.hpp"
#include "hanging_ranks.hpp"
#include "support/unit.hpp"

#include <cstring>

namespace gpurun::test::hang_table {

using namespace launcher;

TEST_SUITE_BEGIN("hang table");

namespace {
constexpr int64_t kNowNs = kSecondNs * 13 + 340'000'000;

// As it stands below.
std::string lines_of(std::string text) { return text.insert(0, 1, '\n'); }

// An entry of a communicator of some ranks.
Entry within(Entry entry, uint32_t comm, const char* name = "") {
    entry.comm = comm;
    entry.name_comm(name);
    return entry;
}
Entry of_barrier(int peer) {
    Entry entry = receives(peer, base::collective_tag(base::Collective::kBarrier, 0, 0));
    entry.flags = wait_report::kCollective;
    return entry;
}

} // namespace

TEST_CASE("a cycle of three") {
    CHECK(lines_of(format_hangs({receiving(1), receiving(2), receiving(0)}, kNowNs, "SIGQUIT")) == R"(
what each rank waits for (SIGQUIT):
rank  call         waited  does  peer  tag  bytes  waits for
   0  gpurun_recv  12.3 s  recv     1    7     64  a matching message
   1  gpurun_recv  12.3 s  recv     2    7     64  a matching message
   2  gpurun_recv  12.3 s  recv     0    7     64  a matching message
deadlock: rank 0 waits for 1 (gpurun_recv, tag 7), rank 1 waits for 2 (gpurun_recv, tag 7), rank 2 waits for 0 (gpurun_recv, tag 7))");
}

TEST_CASE("messages of graphs that wait for each other, in two looks") {
    const auto graph = [](int peer, uint64_t run) {
        RankReport rank = computing();
        Entry entry = in_state(receives(peer, 7), wait_report::State::kRun);
        entry.topic = wait_report::Topic::kGraph;
        entry.flags = wait_report::kOnStream | wait_report::kCaptured;
        entry.since_ns = kSecondNs;
        entry.all = run;
        rank.graphs.push_back(entry);
        rank.end.graphs = 1;
        return rank;
    };
    WaitReports ranks{graph(1, 3), graph(0, 4)};
    constexpr auto kCircle =
        "messages of graphs wait for each other: rank 0's from rank 1 (tag 7, run 3), rank 1's from "
        "rank 0 (tag 7, run 4)";
    CHECK(format_hangs(ranks, kNowNs, "SIGQUIT").find("each other") == std::string::npos);
    settle(ranks[0], graph(1, 3));
    settle(ranks[1], graph(0, 3)); // it has moved in between
    CHECK(format_hangs(ranks, kNowNs, "SIGQUIT").find("each other") == std::string::npos);
    settle(ranks[1], graph(0, 4));
    const std::string text = format_hangs(ranks, kNowNs, "SIGQUIT");
    CHECK(text.find(kCircle) != std::string::npos);
    CHECK(text.find("rank 1's graph to send this in its run 3") != std::string::npos);
    CHECK(text.find("deadlock") == std::string::npos);
}

TEST_CASE("a rank answers from any call that it is to unmap memory: who waits for that is in no circle") {
    Entry unmaps = in_state(wants(wait_report::What::kRank, 1), wait_report::State::kUnknown);
    unmaps.flags = wait_report::kLoan;
    const std::string text = format_hangs({in_call("gpurun_unregister", {unmaps}), receiving(0)}, kNowNs, "SIGQUIT");
    CHECK(text.find("rank 1 to unmap memory of this rank") != std::string::npos);
    CHECK(text.find("deadlock") == std::string::npos);
}

TEST_CASE("who leaves a joint job waits for ranks to leave that, and not for gpurun_finalize()") {
    Entry leaves = in_state(wants(wait_report::What::kRank, 1), wait_report::State::kUnknown);
    CHECK(format_hangs({in_call("gpurun_finalize", {leaves}), receiving(0)}, kNowNs, "SIGQUIT")
              .find("rank 1 to call gpurun_finalize()") != std::string::npos);
    leaves.flags = wait_report::kJoint;
    CHECK(format_hangs({in_call("gpurun_comm_free", {leaves}), receiving(0)}, kNowNs, "SIGQUIT")
              .find("rank 1 to leave the joint job: gpurun_comm_free()") != std::string::npos);
}

TEST_CASE("all kinds of waits") {
    Entry relay = in_state(sends(1, 3), wait_report::State::kRelay);
    relay.call_it("staged");
    relay.flags = wait_report::kOnStream;
    relay.done = 2;
    relay.all = 16;
    Entry edge = in_state(receives(2, wait_report::kAnyTag), wait_report::State::kEdge);
    edge.flags = wait_report::kPeerEdge;
    edge.slot = 5;
    edge.done = 2;
    edge.all = 4;
    Entry stream = in_state(wants(wait_report::What::kStream, 0, 0, 0x55aa), wait_report::State::kDevice);
    Entry held = edge;
    held.topic = wait_report::Topic::kHeld;
    held.bytes = 0x55aa;
    RankReport synchronizing = in_call("gpurun_stream_synchronize", {stream});
    synchronizing.held = {held};
    synchronizing.end.held = 9;
    RankReport ready;
    ready.presence = RankReport::Presence::kReady;
    ready.since_ns = kSecondNs;
    RankReport other;
    other.system = "sleeps in do_wait";
    RankReport silent;
    silent.presence = RankReport::Presence::kNoAnswer;
    silent.system = "is stopped";
    const std::string text = format_hangs(
        {in_call("gpurun_waitsome", {relay, edge}, true), synchronizing, has(computing(), 1, 4), ready, other, silent},
        kNowNs, "--hang-timeout=5");
    CHECK(lines_of(text) == R"(
what each rank waits for (--hang-timeout=5):
rank  call                        waited  does            peer  tag  bytes  path    waits for
   0  gpurun_waitsome (any of 2)  12.3 s  send on stream     1  3       64  staged  matched; rank 1 to drain chunk 3 of 16
   0                                      recv               2  any     64  -       matched; rank 2's stream: fence edge forward of slot 5 (at 2, wants 4)
   1  gpurun_stream_synchronize   12.3 s  -                  -  -        -  -       stream 0x55aa
   1  stream 0x55aa               -       -                  2  -        -  -       rank 2's stream: fence edge forward of slot 5 (at 2, wants 4)
   1                                      -                  -  -        -  -       and 8 more fence slots that streams wait for
   2  -                           -       -                  -  -        -  -       not in a gpurun call; its process runs
   2  -                           -       recv               1  4       64  -       arrived; no matching receive posted
   3  gpurun_init                 12.3 s  -                  -  -        -  -       rank 4 to call gpurun_init()
   4  -                           -       -                  -  -        -  -       no gpurun_init() yet, or not a gpurun program; sleeps in do_wait
   5  -                           -       -                  -  -        -  -       does not answer; is stopped
rank 1 waits for its stream 0x55aa, in which a message from rank 2 waits until that rank's stream reaches the send)");
}

TEST_CASE("messages of other communicators than that of all ranks tell its name, or its number") {
    const std::string text = format_hangs({in_call("gpurun_recv", {within(receives(1), 4099, "rows")}),
                                           in_call("gpurun_recv", {within(receives(0), 4100)}), receiving(1)},
                                          kNowNs, "SIGQUIT");
    CHECK(lines_of(text) == R"(
what each rank waits for (SIGQUIT):
rank  call         waited  does  peer  tag  communicator  bytes  waits for
   0  gpurun_recv  12.3 s  recv     1    7  rows             64  a matching message
   1  gpurun_recv  12.3 s  recv     0    7  #4100            64  a matching message
   2  gpurun_recv  12.3 s  recv     1    7  -                64  a matching message
deadlock: rank 0 waits for 1 (gpurun_recv of rows, tag 7), rank 1 waits for 0 (gpurun_recv of #4100, tag 7); rank 2 waits for these)");
}

TEST_CASE("a message that would fit in another communicator is told of, and no other of that") {
    const RankReport rank = in_call("gpurun_recv", {within(receives(1), 4099, "rows")});
    const std::string text = format_hangs({has(rank, 1, 7), computing()}, kNowNs, "SIGQUIT");
    CHECK(
        text.find("rank 0 waits for tag 7 from rank 1 in rows, and has an unexpected message with tag 7 from rank 1 in "
                  "GPURUN_COMM_WORLD (64 bytes)") != std::string::npos);
    CHECK(format_hangs({has(rank, 1, 8), computing()}, kNowNs, "SIGQUIT").find("has an unexpected") ==
          std::string::npos);
}

TEST_CASE("in a collective of some ranks only those are missing that the others wait for") {
    const RankReport inside = in_call("gpurun_barrier", {within(of_barrier(2), 4099, "rows")});
    const std::string text = format_hangs({inside, inside, computing(), computing()}, kNowNs, "SIGQUIT");
    CHECK(text.find("gpurun_barrier of rows: ranks 0-1 wait in it; rank 2 is not in a gpurun call\n") !=
          std::string::npos);
    const RankReport of_all = in_call("gpurun_comm_split", {of_barrier(2)});
    CHECK(
        format_hangs({of_all, of_all, computing(), computing()}, kNowNs, "SIGQUIT")
            .find("gpurun_comm_split: ranks 0-1 wait in it; rank 2 is not in a gpurun call, rank 3 is not in a gpurun "
                  "call") != std::string::npos);
}

TEST_CASE("who waits for any source in a communicator of some ranks may not wait for the only rank that is free") {
    const RankReport waiting = in_call("gpurun_recv", {within(receives(wait_report::kAnySource), 4099)});
    CHECK(format_hangs({waiting, waiting, computing()}, kNowNs, "SIGQUIT").find("for rank 2") == std::string::npos);
}

TEST_CASE("who waits in gpurun_init() for ranks that have ended is not said to wait for nobody") {
    RankReport ready;
    ready.presence = RankReport::Presence::kReady;
    ready.since_ns = kSecondNs;
    RankReport ended;
    ended.presence = RankReport::Presence::kEnded;
    CHECK(format_hangs({ready, ended}, kNowNs, "SIGQUIT").find("all other ranks have called gpurun_init() or ended") !=
          std::string::npos);
}

TEST_CASE("of much, the first is shown, and the rest is counted") {
    std::vector<Entry> many(wait_report::kMostAwaited, receives(1));
    RankReport rank = in_call("gpurun_waitall", many);
    rank.threads[0].number = 1000;
    const std::string text = format_hangs({rank, computing()}, kNowNs, "SIGQUIT");
    CHECK(text.find("(all of 1000)") != std::string::npos);
    CHECK(text.find("and 994 more\n") != std::string::npos);
    rank.end.flags = 0;
    CHECK(format_hangs({rank, computing()}, kNowNs, "SIGQUIT").find("more messages, which it had no time to list") !=
          std::string::npos);
    WaitReports crowd;
    for (int i = 0; i < 50; ++i)
        crowd.push_back(has(receiving(0, 7), 0, 8));
    CHECK(format_hangs(crowd, kNowNs, "SIGQUIT").find("more findings") != std::string::npos);
}

TEST_CASE("an answer is put together from its entries") {
    RankReport rank;
    Entry thread;
    thread.topic = wait_report::Topic::kThread;
    thread.call_it("gpurun_waitall");
    thread.number = 2;
    REQUIRE(take(rank, thread, 4));
    REQUIRE(take(rank, receives(3), 4));
    REQUIRE(take(rank, receives(wait_report::kAnySource), 4));
    wait_report::End end;
    end.threads = 1;
    REQUIRE(finish(rank, end));
    CHECK(rank.answered());
    REQUIRE(rank.threads.size() == 1);
    CHECK(rank.threads[0].call == "gpurun_waitall");
    CHECK(rank.threads[0].awaited.size() == 2);
}

TEST_CASE("what no rank of ours would say is refused") {
    const auto refuses = [](Entry entry) {
        RankReport rank;
        return !take(rank, entry, 4);
    };
    Entry good = receives(3);
    good.topic = wait_report::Topic::kUnexpected;
    CHECK_FALSE(refuses(good));
    const auto spoilt = [&](auto spoil) {
        Entry entry = good;
        spoil(entry);
        return refuses(entry);
    };
    CHECK(refuses(receives(3))); // of no thread
    CHECK(spoilt([](Entry& entry) { entry.topic = static_cast<wait_report::Topic>(wait_report::kTopics + 1); }));
    CHECK(spoilt([](Entry& entry) { entry.topic = static_cast<wait_report::Topic>(0); }));
    CHECK(spoilt([](Entry& entry) { entry.what = static_cast<wait_report::What>(wait_report::kWhats); }));
    CHECK(spoilt([](Entry& entry) { entry.state = static_cast<wait_report::State>(wait_report::kStates); }));
    CHECK(spoilt([](Entry& entry) { entry.flags = wait_report::kAllFlags + 1; }));
    CHECK(spoilt([](Entry& entry) { entry.peer = 4; }));
    CHECK(spoilt([](Entry& entry) { entry.peer = -2; }));
    CHECK(spoilt([](Entry& entry) { entry.tag = -2; }));
    CHECK(spoilt([](Entry& entry) { entry.since_ns = -1; }));
    CHECK(spoilt([](Entry& entry) { std::memset(entry.name, 'x', sizeof entry.name); }));
    CHECK(spoilt([](Entry& entry) { entry.call_it("red\x1b[31m"); }));
    CHECK(spoilt([](Entry& entry) { std::memset(entry.comm_name, 'x', sizeof entry.comm_name); }));
}

TEST_CASE("more than the bounds is refused, and so is an end that says less than was said") {
    RankReport rank;
    Entry entry = receives(0);
    entry.topic = wait_report::Topic::kUnexpected;
    for (size_t i = 0; i < wait_report::kMostUnexpected; ++i)
        REQUIRE(take(rank, entry, 1));
    CHECK_FALSE(take(rank, entry, 1));
    wait_report::End end;
    end.unexpected = wait_report::kMostUnexpected - 1;
    CHECK_FALSE(finish(rank, end));
    end.unexpected = 0xffffffff;
    CHECK(finish(rank, end));
    end.phase = static_cast<wait_report::Phase>(wait_report::kPhases);
    CHECK_FALSE(finish(rank, end));
}

TEST_CASE("a wait is the same as before if its thread and its beginning are") {
    RankReport now = receiving(1);
    settle(now, receiving(1));
    CHECK(now.threads[0].settled);
    RankReport before = receiving(1);
    before.threads[0].since_ns -= 1;
    settle(now, before);
    CHECK_FALSE(now.threads[0].settled);
    now = receiving(1);
    now.threads[0].moved = 1; // by which it may have come nearer to its end
    settle(now, receiving(1));
    CHECK_FALSE(now.threads[0].settled);
    now = receiving(1);
    now.threads[0].has_unread = true;
    settle(now, receiving(1));
    CHECK_FALSE(now.threads[0].settled);
    settle(now, computing());
    CHECK_FALSE(now.threads[0].settled);
}

TEST_SUITE_END();

} // namespace gpurun::test::hang_table
