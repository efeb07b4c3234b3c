// Alarms: what wakes a sleeping thread, and how long it sleeps where nothing is sure to.
#include "one_rank.hpp"
#include "support/gate.hpp"

using namespace gpurun;
using comm::Patience;
using gpurun::test::Gate;
using gpurun::test::must;
using gpurun::test::OneRank;
using transfer::CompletionPoint;
using transfer::Edge;
using transfer::Slot;
using transfer::SlotClass;

namespace {

constexpr int64_t kMs = 1'000'000;

// A stream that is held, and events behind that.
struct Waiting {
    OneRank rank;
    Gate gate{rank.device()};
    const device::Stream stream = must(rank.device().create_stream());

    Waiting() { gate.hold(stream); }
    CompletionPoint event() {
        const device::Event made = must(rank.device().create_event());
        must(rank.device().record(made, stream));
        return CompletionPoint::at(made);
    }
    CompletionPoint edge(uint16_t index) {
        return CompletionPoint::at(rank.channel(1).edges(transfer::Direction::kIn), Edge::kForward,
                                   Slot{SlotClass::kRendezvous, true, index, 0, transfer::kSlotStep});
    }
    size_t limit() { return rank.core.resources().pools.streams.limits().alarms; }
    int64_t sleep_ns() {
        Patience patience;
        return rank.alarms.longest_sleep_ns(patience);
    }
};

} // namespace

TEST_SUITE_BEGIN("alarms");

TEST_CASE("patience doubles up to a limit, and starts afresh when something has moved") {
    Patience patience;
    CHECK(patience.next_ns(0) == kMs);
    CHECK(patience.next_ns(0) == 2 * kMs);
    CHECK(patience.next_ns(0) == 4 * kMs);
    CHECK(patience.next_ns(1) == kMs);
    for (int i = 0; i < 10; ++i)
        (void)patience.next_ns(1);
    CHECK(patience.next_ns(1) == 20 * kMs);
}

TEST_CASE("a thread that waits for no device sleeps until it is notified") {
    Waiting waiting;
    waiting.rank.alarms.begin();
    CHECK(waiting.sleep_ns() == platform::kForever);
    must(waiting.rank.alarms.set(waiting.event()));
    CHECK(waiting.sleep_ns() == kMs);
    waiting.rank.alarms.begin(); // another one, who waits for nothing of the kind
    CHECK(waiting.sleep_ns() == platform::kForever);
    waiting.rank.alarms.look_again();
    CHECK(waiting.sleep_ns() < kMs);
}

TEST_CASE("an alarm notifies the rank when its point has come") {
    Waiting waiting;
    auto& doorbell = waiting.rank.core.own_record().doorbell;
    waiting.rank.job().announce(0, platform::presence::kSleeper);
    const uint32_t before = doorbell.load();
    waiting.rank.alarms.begin();
    must(waiting.rank.alarms.set(waiting.event()));
    CHECK(doorbell.load() == before);
    waiting.gate.open();
    platform::sleep_while(doorbell, before, 30'000 * kMs);
    CHECK(doorbell.load() != before);
}

TEST_CASE("one point has one alarm, however often it is set, and one that has rung is used again") {
    Waiting waiting;
    comm::Alarms& alarms = waiting.rank.alarms;
    const CompletionPoint point = waiting.event();
    alarms.begin();
    for (size_t i = 0; i < 2 * waiting.limit(); ++i)
        must(alarms.set(point));
    CHECK(waiting.sleep_ns() == kMs); // none is missing
    waiting.gate.open();
    for (size_t i = 0; i < 2 * waiting.limit(); ++i) {
        must(waiting.rank.device().synchronize_all()); // all have rung
        must(alarms.set(waiting.event()));
    }
    CHECK(waiting.sleep_ns() == kMs);
}

TEST_CASE("where there are more points than alarms, the thread looks again by itself") {
    Waiting waiting;
    waiting.rank.alarms.begin();
    for (size_t i = 0; i < waiting.limit(); ++i)
        must(waiting.rank.alarms.set(waiting.event()));
    CHECK(waiting.sleep_ns() == kMs);
    must(waiting.rank.alarms.set(waiting.event())); // no error, and no alarm
    CHECK(waiting.sleep_ns() == kMs);
}

TEST_CASE("it is known whether an alarm's stream waits for a peer") {
    Waiting waiting;
    comm::Alarms& alarms = waiting.rank.alarms;
    alarms.begin();
    must(alarms.set(waiting.event()));
    CHECK_FALSE(alarms.any_awaits_edge());
    const CompletionPoint point = waiting.edge(0);
    must(alarms.set(point));
    CHECK(alarms.any_awaits_edge());
    point.fence->signal_now(point.edge, point.slot);
    waiting.gate.open();
    must(waiting.rank.device().synchronize_all());
    CHECK_FALSE(alarms.any_awaits_edge());
}

TEST_SUITE_END();
