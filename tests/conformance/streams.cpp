// Streams: order within one, independence of several, and which handles are streams.
#include "subject.hpp"

#include "support/made_up.hpp"

#include <atomic>
#include <set>
#include <thread>

namespace gpurun::conformance::streams {

TEST_SUITE_BEGIN("streams");

namespace {

// Host functions that note the order in which they ran.
struct Journal {
    std::vector<int> entries; // written by one stream; read after it is synchronized
};
struct Entry {
    Journal* journal;
    int number;
};
void note(void* argument) {
    const auto* entry = static_cast<Entry*>(argument);
    entry->journal->entries.push_back(entry->number);
}

void increment(void* argument) { static_cast<std::atomic<int>*>(argument)->fetch_add(1); }

} // namespace

TEST_CASE("a stream runs what it was given in order, however much that is") {
    constexpr int kCalls = 3000; // more than any queue holds
    const Stream stream;
    Journal journal;
    std::vector<Entry> entries;
    for (int i = 0; i < kCalls; ++i)
        entries.push_back({&journal, i});
    for (Entry& entry : entries)
        REQUIRE_OK(subject().call_host(stream, note, &entry));
    stream.synchronize();
    REQUIRE(journal.entries.size() == kCalls);
    for (int i = 0; i < kCalls; ++i)
        REQUIRE(journal.entries[static_cast<size_t>(i)] == i);
}

TEST_CASE("host functions and copies of one stream see each other's effects") {
    struct Context {
        std::byte* pinned;
        std::byte seen;
    };
    const Stream stream;
    const Memory memory(64);
    const Pinned pinned(64);
    Context context{pinned.get(), {}};
    REQUIRE_OK(subject().fill(memory.get(), 5, 64, stream));
    REQUIRE_OK(subject().copy(pinned.get(), memory.get(), 64, stream));
    REQUIRE_OK(subject().call_host(
        stream,
        [](void* argument) {
            auto& c = *static_cast<Context*>(argument);
            c.seen = c.pinned[63];
            c.pinned[0] = std::byte{9};
        },
        &context));
    REQUIRE_OK(subject().copy(memory.get(), pinned.get(), 64, stream));
    stream.synchronize();
    CHECK(context.seen == std::byte{5});
    CHECK(read(memory.get(), 1) == Bytes{std::byte{9}});
}

TEST_CASE("enqueuing does not wait, and a blocked stream is not done") {
    const Stream stream;
    const Memory memory(4096);
    const size_t gate = new_counter();
    hold(stream, gate);
    for (int i = 0; i < 100; ++i)
        REQUIRE_OK(subject().fill(memory.get(), i, 4096, stream));
    watch();
    CHECK_FALSE(stream.done());
    store(gate, 1);
    CHECK(soon([&] { return stream.done(); }));
    stream.synchronize();
}

TEST_CASE("a new stream is done") {
    const Stream stream;
    CHECK(stream.done());
    stream.synchronize();
}

TEST_CASE("a stream has the name of no other, not even of one that was destroyed") {
    const Stream first;
    const uint64_t name = must(subject().name(first));
    std::set<uint64_t> names{name, must(subject().name(device::Stream{}))};
    CHECK(names.size() == 2);
    for (size_t i = 0; i < 100; ++i) {
        const Stream stream;
        names.insert(must(subject().name(stream)));
        CHECK(names.size() == i + 3);
    }
    CHECK(must(subject().name(first)) == name);
}

TEST_CASE("streams do not wait for each other unless they are told to") {
    const Stream blocked;
    const Stream other;
    const Memory memory(64);
    const Pinned pinned(64);
    std::atomic<int> ran{0};
    const size_t gate = new_counter();
    hold(blocked, gate);
    REQUIRE_OK(subject().call_host(blocked, increment, &ran));
    REQUIRE_OK(subject().fill(memory.get(), 7, 64, other));
    REQUIRE_OK(subject().copy(pinned.get(), memory.get(), 64, other));
    other.synchronize();
    CHECK(pinned.get()[63] == std::byte{7});
    CHECK(ran == 0);
    CHECK_FALSE(blocked.done());
    store(gate, 1);
    blocked.synchronize();
    CHECK(ran == 1);
}

TEST_CASE("synchronizing all waits for every stream, the default one too") {
    const Stream first;
    const Stream second;
    std::atomic<int> ran{0};
    const size_t gate = new_counter();
    for (const device::Stream stream : {device::Stream(first), device::Stream(second), device::Stream{}}) {
        hold(stream, gate);
        REQUIRE_OK(subject().call_host(stream, increment, &ran));
    }
    std::thread releaser([&] {
        watch();
        store(gate, 1);
    });
    REQUIRE_OK(subject().synchronize_all());
    CHECK(ran == 3);
    releaser.join();
}

TEST_CASE("the default stream is a stream") {
    REQUIRE_OK(subject().is_captured({}));
    const Memory memory(4096);
    const Pinned pinned(4096);
    REQUIRE_OK(subject().fill(memory.get(), 0x33, 4096, {}));
    REQUIRE_OK(subject().copy(pinned.get(), memory.get(), 4096, {}));
    REQUIRE_OK(subject().synchronize(device::Stream{}));
    CHECK(must(subject().query(device::Stream{})));
    CHECK(pinned.get()[4095] == std::byte{0x33});
}

TEST_CASE("destroying a stream waits for its work") {
    const device::Stream stream = must(subject().create_stream());
    std::atomic<int> ran{0};
    const size_t gate = new_counter();
    hold(stream, gate);
    REQUIRE_OK(subject().call_host(stream, increment, &ran));
    std::thread releaser([&] {
        watch();
        store(gate, 1);
    });
    REQUIRE_OK(subject().destroy_stream(stream));
    CHECK(ran == 1);
    releaser.join();
}

TEST_CASE("what is no stream is refused") {
    const Stream stream;
    CHECK_STATUS(subject().is_captured(stream), Status::kOk);
    // GPURUN_HOST, which a caller may pass on by mistake.
    const auto host = test::made_up<device::Stream>(~uintptr_t{0});
    CHECK_STATUS(subject().is_captured(host), Status::kStream);
    CHECK_STATUS(subject().destroy_stream(host), Status::kStream);
    const device::Stream destroyed = must(subject().create_stream());
    REQUIRE_OK(subject().destroy_stream(destroyed));
    CHECK_STATUS(subject().destroy_stream(destroyed), Status::kStream);
    const std::byte bytes[512] = {};
    const auto local = test::made_up<device::Stream>(bytes);
    CHECK_STATUS(subject().destroy_stream(local), Status::kStream);
    CHECK_STATUS(subject().destroy_stream({}), Status::kStream);
    if (is_emulated()) { // CUDA follows the pointer: it takes streams that gpurun has not made
        CHECK_STATUS(subject().is_captured(destroyed), Status::kStream);
        CHECK_STATUS(subject().is_captured(local), Status::kStream);
        CHECK_STATUS(subject().fill(nullptr, 0, 0, local), Status::kStream);
        CHECK_STATUS(subject().synchronize(local), Status::kStream);
    }
}

TEST_CASE("a handle that was destroyed is given to no other stream or event") {
    if (!is_emulated())
        return; // CUDA gives addresses again
    std::set<const void*> given;
    size_t made = 0;
    for (int i = 0; i < 200; ++i) {
        const device::Stream stream = must(subject().create_stream());
        const device::Event event = must(subject().create_event());
        given.insert({stream.address(), event.address()});
        REQUIRE(given.size() == (made += 2));
        REQUIRE_OK(subject().destroy_event(event));
        REQUIRE_OK(subject().destroy_stream(stream));
    }
}

TEST_CASE("any thread may use any stream") {
    constexpr int kThreads = 4;
    constexpr int kCalls = 200;
    const Stream shared;
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            const device::Stream own = *subject().create_stream();
            for (int call = 0; call < kCalls; ++call) {
                (void)subject().call_host(shared, increment, &ran);
                (void)subject().call_host(own, increment, &ran);
            }
            (void)subject().destroy_stream(own);
        });
    for (std::thread& thread : threads)
        thread.join();
    shared.synchronize();
    CHECK(ran == 2 * kThreads * kCalls);
}

} // namespace gpurun::conformance::streams
