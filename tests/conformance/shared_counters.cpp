// Counters that order the streams and CPUs of two processes.
#include "other_process.hpp"

#include "platform/job_segment.hpp"

namespace gpurun::conformance::shared_counters {

TEST_SUITE_BEGIN("shared counters");

TEST_CASE("a stream's wait is ended by another process's CPU") {
    OtherProcess other(reachable_selectors().front());
    const Stream stream;
    const size_t gate = new_counter();
    REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 3));
    watch();
    CHECK_FALSE(stream.done());
    other.store_counter(gate, 2);
    watch();
    CHECK_FALSE(stream.done());
    other.store_counter(gate, 3);
    stream.synchronize();
}

TEST_CASE("a stream's write is seen by another process's stream, with all that came before") {
    constexpr size_t kBytes = 1 << 20;
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const uint32_t memory = other.allocate(kBytes);
        void* imported = must(subject().import_memory(other.peer(), other.export_memory(memory)));
        const Memory own(kBytes);
        const Stream stream;
        const size_t filled = new_counter();
        const size_t drained = new_counter();
        for (uint64_t round = 1; round <= 10; ++round) {
            // Both sides are enqueued in full before anything may run; then the other process's CPU lets go.
            REQUIRE_OK(subject().counters()->await_counter(stream, &counter(filled), round));
            REQUIRE_OK(subject().copy(own.get(), imported, kBytes, stream));
            REQUIRE_OK(subject().counters()->write_counter(stream, &counter(drained), round));
            other.fill(memory, static_cast<int>(round), kBytes);
            other.write_counter(filled, round);
            other.await_counter(drained, round);
            other.fill(memory, 0xff, kBytes);
            stream.synchronize();
            REQUIRE(read(own.get(), kBytes) == Bytes(kBytes, static_cast<std::byte>(round)));
        }
        other.synchronize();
        REQUIRE_OK(subject().close_memory(imported));
    }
}

TEST_CASE("a stream that waits for a dead process is released by a survivor's poison") {
    OtherProcess other(reachable_selectors().front());
    const Stream stream;
    const size_t gate = new_counter();
    REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 2));
    other.kill_it();
    watch();
    CHECK_FALSE(stream.done());
    store(gate, counter(gate).load() | platform::kPoison);
    stream.synchronize();
    subject().release_peer(other.peer());
    const Memory memory(4096); // the device is still well
    write(memory.get(), pattern(4096, 2));
    CHECK(read(memory.get(), 4096) == pattern(4096, 2));
}

} // namespace gpurun::conformance::shared_counters
