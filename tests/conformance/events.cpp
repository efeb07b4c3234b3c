// Events, within one process.
#include "subject.hpp"

#include "support/made_up.hpp"

namespace gpurun::conformance::events {

TEST_SUITE_BEGIN("events");

TEST_CASE("an event that was never recorded counts as complete") {
    const Event events[] = {Event(), Event(must(subject().create_shared_event()))};
    for (const Event& event : events) {
        const Stream stream;
        CHECK(event.done());
        REQUIRE_OK(subject().synchronize(device::Event(event)));
        REQUIRE_OK(subject().await_event(stream, event));
        stream.synchronize();
    }
}

TEST_CASE("an event completes when everything before its record has") {
    const Event events[] = {Event(), Event(must(subject().create_shared_event()))};
    for (const Event& event : events) {
        const Stream stream;
        const size_t gate = new_counter();
        hold(stream, gate);
        REQUIRE_OK(subject().record(event, stream));
        watch();
        CHECK_FALSE(event.done());
        store(gate, 1);
        REQUIRE_OK(subject().synchronize(device::Event(event)));
        CHECK(event.done());
    }
}

TEST_CASE("an event does not wait for what follows its record") {
    const Event event;
    const Stream stream;
    const size_t gate = new_counter();
    REQUIRE_OK(subject().record(event, stream));
    hold(stream, gate);
    REQUIRE_OK(subject().synchronize(device::Event(event)));
    CHECK(event.done());
    CHECK_FALSE(stream.done());
    store(gate, 1);
    stream.synchronize();
}

TEST_CASE("a stream that awaits an event sees what came before its record") {
    constexpr size_t kBytes = 300'000;
    const Event filled;
    const Event drained;
    const Stream producer;
    const Stream consumer;
    const Memory memory(kBytes);
    const Pinned pinned(kBytes);
    for (int round = 1; round <= 20; ++round) {
        REQUIRE_OK(subject().await_event(producer, drained));
        REQUIRE_OK(subject().fill(memory.get(), round, kBytes, producer));
        REQUIRE_OK(subject().record(filled, producer));
        REQUIRE_OK(subject().await_event(consumer, filled));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), kBytes, consumer));
        REQUIRE_OK(subject().record(drained, consumer));
        consumer.synchronize();
        REQUIRE(Bytes(pinned.get(), pinned.get() + kBytes) == Bytes(kBytes, static_cast<std::byte>(round)));
    }
    producer.synchronize();
}

TEST_CASE("a wait is for the latest record at the time of the call: a later one does not prolong it") {
    const Event event;
    const Stream first;
    const Stream second;
    const Stream waiter;
    const size_t early = new_counter();
    const size_t late = new_counter();
    hold(first, early);
    REQUIRE_OK(subject().record(event, first));
    REQUIRE_OK(subject().await_event(waiter, event));
    hold(second, late);
    REQUIRE_OK(subject().record(event, second));
    store(early, 1);
    waiter.synchronize();
    CHECK_FALSE(event.done()); // its latest record is the second
    store(late, 1);
    second.synchronize();
    CHECK(soon([&] { return event.done(); }));
}

TEST_CASE("a wait is for the latest record at the time of the call: a later one does not shorten it") {
    const Event event;
    const Stream first;
    const Stream second;
    const Stream waiter;
    const size_t gate = new_counter();
    hold(first, gate);
    REQUIRE_OK(subject().record(event, first));
    REQUIRE_OK(subject().await_event(waiter, event));
    REQUIRE_OK(subject().record(event, second));
    second.synchronize();
    CHECK(soon([&] { return event.done(); }));
    watch();
    CHECK_FALSE(waiter.done());
    store(gate, 1);
    waiter.synchronize();
    first.synchronize();
}

TEST_CASE("an event may be destroyed while a stream waits for it, which goes on waiting") {
    const Stream first;
    const Stream waiter;
    const size_t gate = new_counter();
    const device::Event event = must(subject().create_event());
    hold(first, gate);
    REQUIRE_OK(subject().record(event, first));
    REQUIRE_OK(subject().await_event(waiter, event));
    REQUIRE_OK(subject().destroy_event(event));
    watch();
    CHECK_FALSE(waiter.done());
    store(gate, 1);
    waiter.synchronize();
    first.synchronize();
}

TEST_CASE("an event outlives the stream that recorded it") {
    const Event event;
    const device::Stream stream = must(subject().create_stream());
    REQUIRE_OK(subject().record(event, stream));
    REQUIRE_OK(subject().destroy_stream(stream));
    CHECK(event.done());
    // Whatever takes the destroyed stream's place has nothing to do with it.
    const Stream next;
    const size_t gate = new_counter();
    hold(next, gate);
    CHECK(event.done());
    store(gate, 1);
    next.synchronize();
}

TEST_CASE("a new event has no record, whatever a destroyed one had") {
    const Stream stream;
    const size_t gate = new_counter();
    hold(stream, gate);
    const device::Event destroyed = must(subject().create_shared_event());
    REQUIRE_OK(subject().record(destroyed, stream));
    REQUIRE_OK(subject().destroy_event(destroyed));
    const Event event(must(subject().create_shared_event()));
    CHECK(event.done());
    store(gate, 1);
    stream.synchronize();
}

TEST_CASE("an event is recorded in the default stream too") {
    const Event event;
    const Stream waiter;
    REQUIRE_OK(subject().record(event, {}));
    REQUIRE_OK(subject().await_event(waiter, event));
    waiter.synchronize();
    REQUIRE_OK(subject().synchronize(device::Event(event)));
    CHECK(event.done());
}

TEST_CASE("what is no event is refused") {
    const device::Event destroyed = must(subject().create_event());
    REQUIRE_OK(subject().destroy_event(destroyed));
    CHECK_STATUS(subject().destroy_event(destroyed), Status::kEvent);
    const std::byte bytes[512] = {};
    const auto local = test::made_up<device::Event>(bytes);
    CHECK_STATUS(subject().destroy_event(local), Status::kEvent);
    CHECK_STATUS(subject().destroy_event({}), Status::kEvent);
    if (is_emulated()) { // CUDA follows the pointer: it takes events that gpurun has not made
        CHECK_STATUS(subject().record(local, {}), Status::kEvent);
        CHECK_STATUS(subject().await_event({}, local), Status::kEvent);
        CHECK_STATUS(subject().query(local), Status::kEvent);
        CHECK_STATUS(subject().synchronize(destroyed), Status::kEvent);
    }
}

} // namespace gpurun::conformance::events
