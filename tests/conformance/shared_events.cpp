// Events of one process that streams of another await.
#include "other_process.hpp"

namespace gpurun::conformance::shared_events {

TEST_SUITE_BEGIN("shared events");

TEST_CASE("an imported event that was never recorded counts as complete") {
    OtherProcess other(reachable_selectors().back());
    const Event event(must(subject().import_event(other.peer(), other.create_shared_event().handle)));
    const Stream stream;
    CHECK(event.done());
    REQUIRE_OK(subject().synchronize(device::Event(event)));
    REQUIRE_OK(subject().await_event(stream, event));
    stream.synchronize();
}

TEST_CASE("an imported event completes when its owner's stream gets to the record") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const auto [number, handle] = other.create_shared_event();
        const Event event(must(subject().import_event(other.peer(), handle)));
        const Stream stream;
        const size_t gate = new_counter();
        other.hold(gate);
        other.record(number);
        REQUIRE_OK(subject().await_event(stream, event));
        watch();
        CHECK_FALSE(event.done());
        CHECK_FALSE(stream.done());
        store(gate, 1);
        stream.synchronize();
        REQUIRE_OK(subject().synchronize(device::Event(event)));
        CHECK(event.done());
    }
}

TEST_CASE("a stream that awaits an imported event sees what its owner did before the record") {
    constexpr size_t kBytes = 1 << 20;
    OtherProcess other(reachable_selectors().back());
    const uint32_t memory = other.allocate(kBytes);
    void* imported = must(subject().import_memory(other.peer(), other.export_memory(memory)));
    const auto [number, handle] = other.create_shared_event();
    const Event filled(must(subject().import_event(other.peer(), handle)));
    const Event drained(must(subject().create_shared_event()));
    const uint32_t theirs = other.import_event(must(subject().export_event(drained)));
    const Memory own(kBytes);
    const Stream stream;
    for (int round = 1; round <= 10; ++round) {
        other.await_event(theirs); // of the round before; the host knows that its record came first
        other.fill(memory, round, kBytes);
        other.record(number);
        REQUIRE_OK(subject().await_event(stream, filled));
        REQUIRE_OK(subject().copy(own.get(), imported, kBytes, stream));
        REQUIRE_OK(subject().record(drained, stream));
        stream.synchronize();
        REQUIRE(read(own.get(), kBytes) == Bytes(kBytes, static_cast<std::byte>(round)));
    }
    REQUIRE_OK(subject().close_memory(imported));
}

TEST_CASE("a wait for an imported event is for the latest record at the time of the call") {
    OtherProcess other(reachable_selectors().front());
    const auto [number, handle] = other.create_shared_event();
    const Event event(must(subject().import_event(other.peer(), handle)));
    const Stream stream;
    const size_t early = new_counter();
    const size_t late = new_counter();
    other.hold(early);
    other.record(number);
    REQUIRE_OK(subject().await_event(stream, event));
    other.hold(late);
    other.record(number);
    store(early, 1);
    stream.synchronize();
    CHECK_FALSE(event.done());
    store(late, 1);
    other.synchronize();
    CHECK(soon([&] { return event.done(); }));
}

TEST_CASE("an imported event is destroyed by its importer alone") {
    OtherProcess other(reachable_selectors().front());
    const auto [number, handle] = other.create_shared_event();
    const device::Event event = must(subject().import_event(other.peer(), handle));
    REQUIRE_OK(subject().destroy_event(event));
    CHECK_STATUS(subject().destroy_event(event), Status::kEvent);
    other.record(number);
    other.synchronize();
    const Event again(must(subject().import_event(other.peer(), handle)));
    CHECK(soon([&] { return again.done(); }));
}

TEST_CASE("releasing a dead peer ends the waits on its events, present and future") {
    if (!subject().info().releases_events) {
        MESSAGE("skipped: this device says that it cannot");
        return;
    }
    OtherProcess other(reachable_selectors().back());
    const auto [number, handle] = other.create_shared_event();
    const Event event(must(subject().import_event(other.peer(), handle)));
    const Stream stream;
    const size_t gate = new_counter();
    other.hold(gate); // which nobody will ever release
    other.record(number);
    REQUIRE_OK(subject().await_event(stream, event));
    watch();
    CHECK_FALSE(stream.done());
    other.kill_it();
    subject().release_peer(other.peer());
    stream.synchronize();
    CHECK(event.done());
    CHECK_FALSE(must(subject().truly_complete(event)));
    REQUIRE_OK(subject().synchronize(device::Event(event)));
    REQUIRE_OK(subject().await_event(stream, event));
    stream.synchronize();
}

TEST_CASE("releasing one peer leaves the events of the others alone") {
    OtherProcess dead(reachable_selectors().front());
    OtherProcess alive(reachable_selectors().front());
    const auto [number, handle] = alive.create_shared_event();
    const Event event(must(subject().import_event(alive.peer(), handle)));
    const Stream stream;
    const size_t gate = new_counter();
    alive.hold(gate);
    alive.record(number);
    REQUIRE_OK(subject().await_event(stream, event));
    dead.kill_it();
    subject().release_peer(dead.peer());
    subject().release_peer(999'999); // nobody
    watch();
    CHECK_FALSE(stream.done());
    store(gate, 1);
    stream.synchronize();
}

TEST_CASE("an event of a peer that was never added cannot be imported") {
    const Event event(must(subject().create_shared_event()));
    const device::EventHandle handle = must(subject().export_event(event));
    CHECK_FALSE(static_cast<bool>(subject().import_event(999'999, handle)));
}

TEST_CASE("only an event's owner records it") {
    if (!is_emulated()) // drivers leave it undefined
        return;
    OtherProcess other(reachable_selectors().front());
    const Event event(must(subject().import_event(other.peer(), other.create_shared_event().handle)));
    CHECK_STATUS(subject().record(event, {}), Status::kEvent);
    CHECK_STATUS(subject().export_event(event), Status::kEvent);
}

} // namespace gpurun::conformance::shared_events
