// Counters, within one process.
#include "subject.hpp"

#include "platform/job_segment.hpp"

#include <algorithm>

namespace gpurun::conformance::counters {

TEST_SUITE_BEGIN("counters");

TEST_CASE("a counter reads its value once everything before in the stream is visible") {
    constexpr size_t kBytes = 1 << 20;
    const Stream stream;
    const Memory memory(kBytes);
    const Pinned pinned(kBytes);
    const size_t done = new_counter();
    for (uint64_t round = 1; round <= 20; ++round) {
        REQUIRE_OK(subject().fill(memory.get(), static_cast<int>(round), kBytes, stream));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), kBytes, stream));
        REQUIRE_OK(subject().counters()->write_counter(stream, &counter(done), round));
        while (counter(done).load(std::memory_order_acquire) < round) {
        }
        REQUIRE(std::count(pinned.get(), pinned.get() + kBytes, static_cast<std::byte>(round)) == kBytes);
    }
    stream.synchronize();
}

TEST_CASE("a stream waits until the counter reads the value or more") {
    for (const uint64_t value : {uint64_t{5}, uint64_t{6}, uint64_t{1} << 40}) {
        const Stream stream;
        const size_t gate = new_counter();
        REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 5));
        watch();
        CHECK_FALSE(stream.done());
        store(gate, 4);
        watch();
        CHECK_FALSE(stream.done());
        store(gate, value);
        CHECK(soon([&] { return stream.done(); }));
        stream.synchronize();
    }
}

TEST_CASE("a counter that has reached the value holds nobody up") {
    const Stream stream;
    const size_t gate = new_counter();
    store(gate, 7);
    REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 7));
    REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 0));
    stream.synchronize();
    CHECK(counter(gate).load() == 7);
}

TEST_CASE("a poisoned counter ends every wait") {
    const Stream stream;
    const size_t gate = new_counter();
    store(gate, 6);
    REQUIRE_OK(subject().counters()->await_counter(stream, &counter(gate), 1'000'000));
    watch();
    CHECK_FALSE(stream.done());
    store(gate, 6 | platform::kPoison);
    stream.synchronize();
}

TEST_CASE("one stream's write ends another's wait, which then sees what was written before") {
    constexpr size_t kBytes = 300'000;
    const Stream producer;
    const Stream consumer;
    const Memory memory(kBytes);
    const Pinned pinned(kBytes);
    const size_t filled = new_counter();
    const size_t drained = new_counter();
    for (uint64_t round = 1; round <= 20; ++round) {
        REQUIRE_OK(subject().counters()->await_counter(producer, &counter(drained), round - 1));
        REQUIRE_OK(subject().fill(memory.get(), static_cast<int>(round), kBytes, producer));
        REQUIRE_OK(subject().counters()->write_counter(producer, &counter(filled), round));
        REQUIRE_OK(subject().counters()->await_counter(consumer, &counter(filled), round));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), kBytes, consumer));
        consumer.synchronize();
        REQUIRE(std::count(pinned.get(), pinned.get() + kBytes, static_cast<std::byte>(round)) == kBytes);
        REQUIRE_OK(subject().counters()->write_counter(consumer, &counter(drained), round));
    }
    producer.synchronize();
    consumer.synchronize();
}

TEST_CASE("the wait may be enqueued before the write it waits for") {
    const Stream consumer;
    const Stream producer;
    const size_t gate = new_counter();
    REQUIRE_OK(subject().counters()->await_counter(consumer, &counter(gate), 1));
    watch();
    CHECK_FALSE(consumer.done());
    REQUIRE_OK(subject().counters()->write_counter(producer, &counter(gate), 1));
    consumer.synchronize();
}

TEST_CASE("several streams wait for one counter") {
    const Stream streams[4];
    const size_t gate = new_counter();
    for (uint64_t i = 0; i < 4; ++i)
        REQUIRE_OK(subject().counters()->await_counter(streams[i], &counter(gate), i + 1));
    for (uint64_t i = 0; i < 4; ++i) {
        CHECK_FALSE(streams[i].done());
        store(gate, i + 1);
        streams[i].synchronize();
    }
}

TEST_CASE("a watched counter holds the stream up until it reads the value or more, or is poisoned") {
    struct Watch {
        uint64_t value, stored;
    };
    constexpr Watch kWatches[] = {{4, 4}, {6, 8}, {uint64_t{1} << 40, 8 | platform::kPoison}};
    const Memory memory(100);
    const Pinned pinned(100);
    const Stream stream;
    const size_t gate = new_counter();
    int mark = 0;
    for (const Watch& each : kWatches) {
        ++mark;
        REQUIRE_OK(subject().counters()->watch_counter(stream, &counter(gate), each.value));
        REQUIRE_OK(subject().fill(memory.get(), mark, 100, stream));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), 100, stream));
        watch();
        CHECK_FALSE(stream.done());
        store(gate, each.stored);
        stream.synchronize();
        CHECK(std::count(pinned.get(), pinned.get() + 100, static_cast<std::byte>(mark)) == 100);
    }
}

TEST_CASE("who watches a counter sees what was written before it came") {
    constexpr size_t kBytes = 300'000;
    const Memory memory(kBytes);
    const Pinned pinned(kBytes);
    const Stream producer;
    const Stream consumer;
    const size_t filled = new_counter();
    const size_t drained = new_counter();
    for (uint64_t round = 1; round <= 20; ++round) {
        REQUIRE_OK(subject().counters()->watch_counter(consumer, &counter(filled), round));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), kBytes, consumer));
        REQUIRE_OK(subject().counters()->watch_counter(producer, &counter(drained), round - 1));
        REQUIRE_OK(subject().fill(memory.get(), static_cast<int>(round), kBytes, producer));
        REQUIRE_OK(subject().counters()->write_counter(producer, &counter(filled), round));
        consumer.synchronize();
        REQUIRE(std::count(pinned.get(), pinned.get() + kBytes, static_cast<std::byte>(round)) == kBytes);
        REQUIRE_OK(subject().counters()->write_counter(consumer, &counter(drained), round));
    }
    producer.synchronize();
    consumer.synchronize();
}

} // namespace gpurun::conformance::counters
