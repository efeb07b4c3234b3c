// Graphs: what is enqueued in a captured stream runs when the graph is launched, as often as that.
//
// Functions that graphs call run on the device's threads; what they wrote is read once the stream was synchronized.
#include "graph.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

namespace gpurun::conformance::graphs {

TEST_SUITE_BEGIN("graphs");

namespace {

constexpr size_t kBytes = 4096;
constexpr int kPatience = 3; // looks at what must not happen

void call(device::Stream stream, std::function<void()>& function) {
    REQUIRE_OK(subject().call_host(
        stream, [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); }, &function));
}

void follow(device::Stream second, device::Stream first, device::Event event) {
    REQUIRE_OK(subject().record(event, first));
    REQUIRE_OK(subject().await_event(second, event));
}

bool all_read(const std::byte* memory, int value) {
    return std::count(memory, memory + kBytes, static_cast<std::byte>(value)) == static_cast<ptrdiff_t>(kBytes);
}

// The calls stay as many as they are.
void stays(const EndCount& end, int calls) {
    for (int look = 0; look < kPatience; ++look) {
        watch();
        CHECK(end.calls() == calls);
    }
}

} // namespace

TEST_CASE("what is captured does not run, but whenever its graph is launched") {
    const Memory memory(kBytes);
    const Pinned got(kBytes);
    write(memory.get(), Bytes(kBytes));
    std::memset(got.get(), 0xee, kBytes);
    const Stream stream;
    CHECK_FALSE(must(subject().is_captured(stream)));
    REQUIRE_OK(subject().graphs()->begin_capture(stream));
    CHECK(must(subject().is_captured(stream)));
    REQUIRE_OK(subject().fill(memory.get(), 0x11, kBytes, stream));
    REQUIRE_OK(subject().copy(got.get(), memory.get(), kBytes, stream));
    const device::Graph graph = must(subject().graphs()->end_capture(stream));
    CHECK_FALSE(must(subject().is_captured(stream)));
    stream.finish();
    CHECK(all_read(got.get(), 0xee));
    CHECK(read(memory.get(), kBytes) == Bytes(kBytes));
    for (int run = 0; run < 3; ++run) {
        std::memset(got.get(), 0xee, kBytes);
        REQUIRE_OK(subject().fill(memory.get(), 0x22, kBytes, stream));
        REQUIRE_OK(subject().graphs()->launch(graph, stream));
        stream.finish();
        CHECK(all_read(got.get(), 0x11));
    }
    REQUIRE_OK(subject().graphs()->destroy_graph(graph));
}

TEST_CASE("a graph that nothing was captured into can be launched") {
    const Stream stream;
    Graph graph(stream, [](device::Stream) {});
    graph.launch(stream);
    stream.finish();
    graph.destroy();
}

TEST_CASE("runs come in the order of their stream, among what else is in it, many of them ahead of the device") {
    constexpr int kRuns = 100;
    std::vector<int> order;
    order.reserve(4 * kRuns);
    std::function<void()> first = [&] { order.push_back(1); };
    std::function<void()> second = [&] { order.push_back(2); };
    std::function<void()> between = [&] { order.push_back(3); };
    const size_t gate = new_counter();
    const Stream stream;
    const Graph graph(stream, [&](device::Stream in) {
        call(in, first);
        call(in, second);
    });
    hold(stream, gate, 2);
    for (int run = 0; run < kRuns; ++run) {
        graph.launch(stream);
        call(stream, between);
    }
    watch();
    CHECK_FALSE(stream.done());
    CHECK(order.empty());
    store(gate, 2);
    stream.finish();
    REQUIRE(order.size() == 3 * kRuns);
    for (size_t i = 0; i < order.size(); ++i)
        REQUIRE(order[i] == static_cast<int>(i % 3) + 1);
}

TEST_CASE("runs of one graph do not overlap, whatever streams they are launched in") {
    constexpr int kRuns = 12;
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    int runs = 0; // guarded by nothing else
    std::function<void()> enter = [&] { overlaps += inside++ == 0 ? 0 : 1; };
    std::function<void()> leave = [&] {
        ++runs;
        overlaps += --inside == 0 ? 0 : 1;
    };
    const Stream streams[3];
    const Graph graph(streams[0], [&](device::Stream in) {
        call(in, enter);
        call(in, leave);
    });
    for (int run = 0; run < kRuns; ++run)
        graph.launch(streams[run % 3]);
    for (const Stream& stream : streams)
        stream.finish();
    CHECK(runs == kRuns);
    CHECK(overlaps == 0);
}

TEST_CASE("graphs of different captures run side by side") {
    const size_t gate = new_counter();
    const Pinned got(kBytes);
    const Memory memory(kBytes);
    const Stream held;
    const Stream free;
    std::function<void()> nothing = [] {};
    const Graph behind(held, [&](device::Stream in) { call(in, nothing); });
    const Graph ahead(free, [&](device::Stream in) {
        REQUIRE_OK(subject().fill(memory.get(), 0x5c, kBytes, in));
        REQUIRE_OK(subject().copy(got.get(), memory.get(), kBytes, in));
    });
    hold(held, gate, 2);
    behind.launch(held);
    ahead.launch(free);
    free.finish();
    CHECK(all_read(got.get(), 0x5c));
    CHECK_FALSE(held.done());
    store(gate, 2);
    held.finish();
}

TEST_CASE("branches fork and join by events, in every run") {
    const Memory source(kBytes);
    const Memory left(kBytes);
    const Memory right(kBytes);
    const Pinned fresh(kBytes);
    const Pinned from_left(kBytes);
    const Pinned from_right(kBytes);
    const Stream main;
    const Stream branch;
    {
        const Event forked;
        const Event joined;
        const Graph graph(main, [&](device::Stream in) {
            REQUIRE_OK(subject().copy(source.get(), fresh.get(), kBytes, in));
            follow(branch, in, forked);
            CHECK(must(subject().is_captured(branch)));
            REQUIRE_OK(subject().copy(left.get(), source.get(), kBytes, branch));
            REQUIRE_OK(subject().copy(right.get(), source.get(), kBytes, in));
            follow(in, branch, joined);
            REQUIRE_OK(subject().fill(source.get(), 0xee, kBytes, in)); // both have read it
            REQUIRE_OK(subject().copy(from_left.get(), left.get(), kBytes, in));
            REQUIRE_OK(subject().copy(from_right.get(), right.get(), kBytes, in));
        });
        CHECK_FALSE(must(subject().is_captured(branch)));
        for (int run = 1; run <= 20; ++run) {
            std::memset(fresh.get(), run, kBytes);
            graph.launch(run % 2 == 0 ? main : branch); // the streams of the capture are streams as any
            main.finish();
            branch.finish();
            CHECK(all_read(from_left.get(), run));
            CHECK(all_read(from_right.get(), run));
        }
    }
    REQUIRE_OK(subject().fill(left.get(), 0x77, kBytes, branch));
    branch.finish();
    CHECK(read(left.get(), kBytes) == Bytes(kBytes, std::byte{0x77}));
}

TEST_CASE("a branch forks on, and is joined through another") {
    constexpr int kRuns = 10;
    const Memory memory[3] = {Memory(kBytes), Memory(kBytes), Memory(kBytes)};
    const Pinned fresh(kRuns * kBytes);
    const Pinned log(kRuns * kBytes);
    const Stream main;
    const Stream branch;
    const Stream twig;
    const Event events[4];
    const Graph graph(main, [&](device::Stream in) {
        follow(branch, in, events[0]);
        REQUIRE_OK(subject().copy(memory[1].get(), memory[0].get(), kBytes, branch));
        follow(twig, branch, events[1]);
        REQUIRE_OK(subject().copy(memory[2].get(), memory[1].get(), kBytes, twig));
        REQUIRE_OK(subject().fill(memory[0].get(), 0xee, kBytes, branch));
        follow(branch, twig, events[2]);
        follow(in, branch, events[3]);
    });
    for (size_t run = 0; run < kRuns; ++run)
        std::memset(fresh.get() + run * kBytes, static_cast<int>(run) + 1, kBytes);
    for (size_t run = 0; run < kRuns; ++run) {
        REQUIRE_OK(subject().copy(memory[0].get(), fresh.get() + run * kBytes, kBytes, main));
        graph.launch(main);
        REQUIRE_OK(subject().copy(log.get() + run * kBytes, memory[2].get(), kBytes, main));
    }
    main.finish();
    for (size_t run = 0; run < kRuns; ++run)
        CHECK(all_read(log.get() + run * kBytes, static_cast<int>(run) + 1));
}

TEST_CASE("a branch is joined when all that it has done is, whatever was recorded besides") {
    const Memory memory(kBytes);
    const Stream main;
    const Stream branch;
    const Event forked;
    const Event joined;
    const Event second; // nobody waits for it
    EndCount end;
    {
        Graph graph(main, [&](device::Stream in) {
            REQUIRE_OK(end.watch(in));
            follow(branch, in, forked);
            REQUIRE_OK(subject().fill(memory.get(), 0x31, kBytes, branch));
            REQUIRE_OK(subject().record(joined, branch));
            REQUIRE_OK(subject().record(second, branch));
            REQUIRE_OK(subject().await_event(in, joined));
        });
        for (int run = 0; run < 3; ++run)
            graph.launch(main);
        main.finish();
        CHECK(read(memory.get(), kBytes) == Bytes(kBytes, std::byte{0x31}));
    }
    CHECK(soon([&] { return end.calls() == 1; }));
}

TEST_CASE("a branch that is not joined back fails the capture, and its streams go on") {
    const Memory memory(kBytes);
    for (const bool joined_too_early : {false, true}) {
        CAPTURE(joined_too_early);
        const Stream main;
        const Stream branch;
        const Event forked;
        const Event joined;
        EndCount end;
        REQUIRE_OK(subject().graphs()->begin_capture(main));
        REQUIRE_OK(end.watch(main));
        follow(branch, main, forked);
        REQUIRE_OK(subject().fill(memory.get(), 1, kBytes, branch));
        if (joined_too_early) {
            follow(main, branch, joined);
            REQUIRE_OK(subject().fill(memory.get(), 2, kBytes, branch));
        }
        CHECK(end.calls() == 0);
        CHECK_STATUS(subject().graphs()->end_capture(main), Status::kStream);
        CHECK(soon([&] { return end.calls() == 1; }));
        for (const device::Stream stream : {device::Stream(main), device::Stream(branch)}) {
            CHECK_FALSE(must(subject().is_captured(stream)));
            REQUIRE_OK(subject().fill(memory.get(), 3, kBytes, stream));
            REQUIRE_OK(subject().synchronize(stream));
        }
        main.finish();
        branch.finish();
        stays(end, 1);
    }
}

TEST_CASE("an event of a capture that has ended means nothing outside, until it is recorded again") {
    const Memory memory(kBytes);
    const Stream stream;
    const Stream other;
    const Event event;
    const Graph graph(stream, [&](device::Stream in) {
        REQUIRE_OK(subject().fill(memory.get(), 1, kBytes, in));
        REQUIRE_OK(subject().record(event, in));
    });
    CHECK_FALSE(static_cast<bool>(subject().await_event(other, event)));
    CHECK_FALSE(must(subject().is_captured(other)));
    graph.launch(stream);
    stream.finish();
    CHECK_FALSE(static_cast<bool>(subject().await_event(other, event))); // a run records nothing
    REQUIRE_OK(subject().record(event, stream));
    REQUIRE_OK(subject().await_event(other, event));
    other.finish();
    CHECK(event.done());
}

TEST_CASE("a graph that is destroyed while it runs comes to its end, and then only is gone") {
    constexpr int kRuns = 3;
    int runs = 0;
    std::function<void()> count = [&] { ++runs; };
    const Memory memory(kBytes);
    const size_t gate = new_counter();
    EndCount end;
    const Stream stream;
    const Stream branch;
    const Event forked;
    const Event joined;
    Graph graph(stream, [&](device::Stream in) {
        REQUIRE_OK(end.watch(in));
        follow(branch, in, forked);
        REQUIRE_OK(subject().fill(memory.get(), 0x44, kBytes, branch));
        follow(in, branch, joined);
        call(in, count);
    });
    hold(stream, gate, 2);
    for (int run = 0; run < kRuns; ++run)
        graph.launch(stream);
    CHECK_FALSE(stream.done());
    std::thread destroyer([&] { graph.destroy(); }); // may wait for the runs
    stays(end, 0);
    store(gate, 2);
    destroyer.join();
    stream.finish();
    CHECK(runs == kRuns);
    CHECK(read(memory.get(), kBytes) == Bytes(kBytes, std::byte{0x44}));
    CHECK(soon([&] { return end.calls() == 1; }));
    stays(end, 1);
}

TEST_CASE("graphs are still only while none runs, and none begins while they are kept so") {
    const Memory memory(kBytes);
    const size_t gate = new_counter();
    const Stream stream;
    Graph destroyed(stream, [&](device::Stream in) { REQUIRE_OK(subject().fill(memory.get(), 0x45, kBytes, in)); });
    const Graph graph(stream, [&](device::Stream in) { REQUIRE_OK(subject().fill(memory.get(), 0x46, kBytes, in)); });
    CHECK(subject().graphs()->keep_graphs_still().owns_lock());
    hold(stream, gate, 2);
    destroyed.launch(stream);
    CHECK_FALSE(subject().graphs()->keep_graphs_still().owns_lock());
    destroyed.destroy_later();
    CHECK_FALSE(subject().graphs()->keep_graphs_still().owns_lock());
    store(gate, 2);
    stream.finish();
    CHECK(soon([&] { return subject().graphs()->keep_graphs_still().owns_lock(); }));
    subject().give_back();
    CHECK(subject().graphs()->keep_graphs_still().owns_lock());

    std::unique_lock still = subject().graphs()->keep_graphs_still();
    REQUIRE(still.owns_lock());
    std::atomic<bool> launched = false;
    std::thread other([&] {
        graph.launch(stream);
        launched = true;
    });
    for (int look = 0; look < kPatience; ++look) {
        watch();
        CHECK_FALSE(launched);
    }
    still.unlock();
    other.join();
    stream.finish();
    CHECK(read(memory.get(), kBytes) == Bytes(kBytes, std::byte{0x46}));
}

TEST_CASE("whoever waits for a graph's end is called once, when it is destroyed and has run") {
    EndCount ends[3];
    const Stream stream;
    const Stream branch;
    const Event forked;
    const Event joined;
    Graph graph(stream, [&](device::Stream in) {
        REQUIRE_OK(ends[0].watch(in));
        REQUIRE_OK(ends[1].watch(in));
        follow(branch, in, forked);
        REQUIRE_OK(ends[2].watch(branch)); // the same graph
        follow(in, branch, joined);
    });
    graph.launch(stream);
    stream.finish();
    for (const EndCount& end : ends)
        CHECK(end.calls() == 0);
    graph.destroy();
    for (const EndCount& end : ends)
        CHECK(soon([&] { return end.calls() == 1; }));
    for (const EndCount& end : ends)
        stays(end, 1);
}

TEST_CASE("the end of a graph that never ran is told") {
    EndCount end;
    const Stream stream;
    Graph graph(stream, [&](device::Stream in) { REQUIRE_OK(end.watch(in)); });
    stays(end, 0);
    graph.destroy();
    CHECK(soon([&] { return end.calls() == 1; }));
    stays(end, 1);
}

TEST_CASE("who would wait for the end of what is no graph is called at once") {
    EndCount end;
    const Stream stream;
    CHECK_STATUS(end.watch(stream), Status::kStream);
    CHECK(end.calls() == 1);
    EndCount of_default;
    CHECK_STATUS(of_default.watch({}), Status::kStream);
    CHECK(of_default.calls() == 1);
    stays(end, 1);
}

TEST_CASE("a graph that is destroyed for later is gone at once, and ends when it is given back") {
    const Memory memory(kBytes);
    const Stream stream;
    EndCount end;
    REQUIRE_OK(subject().graphs()->begin_capture(stream));
    REQUIRE_OK(subject().fill(memory.get(), 0x47, kBytes, stream));
    REQUIRE_OK(end.watch(stream));
    const device::Graph graph = must(subject().graphs()->end_capture(stream));
    REQUIRE_OK(subject().graphs()->launch(graph, stream));
    stream.finish();
    REQUIRE_OK(subject().graphs()->destroy_graph_later(graph));
    CHECK_STATUS(subject().graphs()->destroy_graph_later(graph), Status::kArgument);
    CHECK_STATUS(subject().graphs()->destroy_graph(graph), Status::kArgument);
    stays(end, 0);
    subject().give_back();
    CHECK(soon([&] { return end.calls() == 1; }));
    subject().give_back();
    stays(end, 1);
}

TEST_CASE("what cannot be captured or is no graph is refused") {
    const Stream stream;
    CHECK_STATUS(subject().graphs()->end_capture(stream), Status::kStream);
    CHECK_STATUS(subject().graphs()->begin_capture({}), Status::kStream);
    CHECK_STATUS(subject().graphs()->destroy_graph({}), Status::kArgument);
    CHECK_STATUS(subject().graphs()->destroy_graph_later({}), Status::kArgument);
    REQUIRE_OK(subject().graphs()->begin_capture(stream));
    const device::Graph name = must(subject().graphs()->end_capture(stream));
    REQUIRE_OK(subject().graphs()->destroy_graph(name));
    CHECK_STATUS(subject().graphs()->destroy_graph(name), Status::kArgument);
    if (is_emulated()) { // CUDA follows the pointer
        CHECK_STATUS(subject().graphs()->launch(name, stream), Status::kArgument);
        CHECK_STATUS(subject().graphs()->launch({}, stream), Status::kArgument);
    }
}

namespace {

// What a rank does beside a capture. None of it is in the captured stream.
void work_beside(const Stream& other) {
    constexpr int kValue = 0x3a;
    const Memory memory(kBytes);
    const Pinned pinned(kBytes);
    const Event event;
    const Stream another;
    CHECK(must(subject().describe(memory.get(), kBytes)).exportable);
    (void)must(subject().export_memory(memory.describe()));
    REQUIRE_OK(subject().fill(memory.get(), kValue, kBytes, other));
    REQUIRE_OK(subject().copy(pinned.get(), memory.get(), kBytes, other));
    REQUIRE_OK(subject().record(event, other));
    REQUIRE_OK(subject().await_event(another, event));
    (void)event.done();
    (void)other.done();
    REQUIRE_OK(subject().synchronize(event));
    another.synchronize();
    CHECK(event.done());
    CHECK(all_read(pinned.get(), kValue));
    const Event shared(must(subject().create_shared_event()));
    (void)must(subject().export_event(shared));
    CHECK_FALSE(must(subject().is_captured(other)));
    CHECK(must(subject().name(other)) != must(subject().name(another)));
}

} // namespace

TEST_CASE("a captured stream tells nobody its name, and has the same one afterwards") {
    const Stream stream;
    const uint64_t name = must(subject().name(stream));
    REQUIRE_OK(subject().graphs()->begin_capture(stream));
    CHECK_STATUS(subject().name(stream), Status::kStream);
    auto graph = subject().graphs()->end_capture(stream); // or an error: the capture may have failed
    if (graph)
        REQUIRE_OK(subject().graphs()->destroy_graph(*graph));
    CHECK(must(subject().name(stream)) == name);
}

TEST_CASE("a graph's handle that was destroyed is given to no other, and to no stream or event") {
    if (!is_emulated())
        return; // CUDA gives addresses again
    std::set<const void*> given;
    size_t made = 0;
    for (int i = 0; i < 100; ++i) {
        const Stream stream;
        const Event event;
        REQUIRE_OK(subject().graphs()->begin_capture(stream));
        const device::Graph graph = must(subject().graphs()->end_capture(stream));
        given.insert({device::Stream(stream).address(), device::Event(event).address(), graph.address()});
        REQUIRE(given.size() == (made += 3));
        REQUIRE_OK(subject().graphs()->destroy_graph(graph));
        CHECK_STATUS(subject().graphs()->launch(graph, {}), Status::kArgument);
    }
}

TEST_CASE("a capture is not disturbed by what its thread does besides") {
    const Memory memory(kBytes);
    const Pinned got(kBytes);
    const Stream stream;
    const Stream other;
    const Graph graph(stream, [&](device::Stream in) {
        REQUIRE_OK(subject().fill(memory.get(), 0x61, kBytes, in));
        work_beside(other);
        CHECK(must(subject().is_captured(in)));
        REQUIRE_OK(subject().copy(got.get(), memory.get(), kBytes, in));
    });
    graph.launch(stream);
    stream.finish();
    CHECK(all_read(got.get(), 0x61));
}

TEST_CASE("a capture is not disturbed by other threads, nor they by it") {
    const Memory memory(kBytes);
    const Pinned got(kBytes);
    const Stream stream;
    const Stream other;
    std::barrier<> step(2);
    base::Result<device::Graph> graph = base::Error{Status::kInternal, "nothing was captured"};
    base::Result<void> enqueued;
    std::thread capturer([&] { // without requirements, which throw
        auto begun = subject().graphs()->begin_capture(stream);
        step.arrive_and_wait(); // the other works meanwhile
        step.arrive_and_wait();
        enqueued = begun ? subject().fill(memory.get(), 0x62, kBytes, stream) : std::move(begun);
        if (enqueued)
            enqueued = subject().copy(got.get(), memory.get(), kBytes, stream);
        graph = subject().graphs()->end_capture(stream);
    });
    step.arrive_and_wait();
    std::exception_ptr failed;
    try {
        work_beside(other);
    } catch (...) {
        failed = std::current_exception();
    }
    step.arrive_and_wait();
    capturer.join();
    if (failed)
        std::rethrow_exception(failed);
    REQUIRE_OK(enqueued);
    REQUIRE_OK(graph);
    REQUIRE_OK(subject().graphs()->launch(*graph, stream));
    stream.finish();
    CHECK(all_read(got.get(), 0x62));
    REQUIRE_OK(subject().graphs()->destroy_graph(*graph));
}

TEST_CASE("two threads capture at a time") {
    constexpr int kThreads = 3;
    const Memory memory(kThreads * kBytes);
    const Stream streams[kThreads];
    base::Result<device::Graph> graphs[kThreads] = {base::Result<device::Graph>(device::Graph{}),
                                                    base::Result<device::Graph>(device::Graph{}),
                                                    base::Result<device::Graph>(device::Graph{})};
    bool enqueued[kThreads] = {};
    std::barrier<> step(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            const bool begun = static_cast<bool>(subject().graphs()->begin_capture(streams[i]));
            step.arrive_and_wait();
            if (begun)
                enqueued[i] = static_cast<bool>(subject().fill(memory.get() + i * kBytes, i + 1, kBytes, streams[i]));
            step.arrive_and_wait();
            graphs[i] = subject().graphs()->end_capture(streams[i]);
        });
    for (std::thread& thread : threads)
        thread.join();
    for (int i = 0; i < kThreads; ++i) {
        REQUIRE(enqueued[i]);
        REQUIRE_OK(graphs[i]);
        REQUIRE_OK(subject().graphs()->launch(*graphs[i], streams[kThreads - 1 - i]));
    }
    for (const Stream& stream : streams)
        stream.finish();
    const Bytes got = read(memory.get(), kThreads * kBytes);
    for (int i = 0; i < kThreads; ++i) {
        CHECK(all_read(got.data() + i * kBytes, i + 1));
        REQUIRE_OK(subject().graphs()->destroy_graph(*graphs[i]));
    }
}

} // namespace gpurun::conformance::graphs
