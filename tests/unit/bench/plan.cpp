// Portions.
#include "plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace gpurun::bench;

namespace {

Options options_of(Test test, std::vector<size_t> sizes, Order order) {
    Options options;
    options.tests = {test};
    options.sizes = std::move(sizes);
    options.orders = {order};
    return options;
}

Task only(const Options& options, bool on_gpus = false) {
    const auto tasks = plan(options, on_gpus);
    REQUIRE(tasks.size() == 1);
    return tasks[0];
}

constexpr size_t kMiB = size_t{1} << 20;

} // namespace

TEST_SUITE_BEGIN("plan");

TEST_CASE("tests run one after the other, in them the order domains, in them the sizes") {
    Options options;
    options.tests = {Test::kBandwidth, Test::kLatency};
    options.sizes = {64, 8};
    const auto tasks = plan(options, false);
    REQUIRE(tasks.size() == 8);
    CHECK(tasks[0].test == Test::kBandwidth);
    CHECK(tasks[1].bytes == 8);
    CHECK(tasks[2].order == Order::kHost);
    CHECK(tasks[4].test == Test::kLatency);
}

TEST_CASE("calls are measured on streams only") {
    Options options;
    options.tests = {Test::kCall};
    for (const Task& task : plan(options, false))
        CHECK(task.order == Order::kStream);
}

TEST_CASE("a round trip is a sample in host order, a batch of them in stream order") {
    const Task host = only(options_of(Test::kLatency, {8}, Order::kHost));
    CHECK(host.batch == 1);
    CHECK(host.turns * host.samples == 500);
    const Task stream = only(options_of(Test::kLatency, {8}, Order::kStream));
    CHECK(stream.batch == 50);
    CHECK(stream.turns * stream.samples * stream.batch == 500);
}

TEST_CASE("what is validated has a buffer for each message in flight, within the room there is") {
    auto options = options_of(Test::kLatency, {8, 16 * kMiB}, Order::kStream);
    CHECK(plan(options, false)[0].slots() == 1);
    options.validate = true;
    const auto tasks = plan(options, false);
    CHECK(tasks[0].slots() == tasks[0].batch);
    CHECK(tasks[0].batch == 50);
    CHECK(tasks[1].batch == 8);
    CHECK(tasks[1].slots() * tasks[1].bytes <= arena_limit(options, false));
}

TEST_CASE("an exchange has two messages each way unless asked for more, which a graph has room for") {
    auto options = options_of(Test::kExchange, {8, 512 * 1024}, Order::kStream);
    options.form = Form::kStartall;
    for (const Task& task : plan(options, true)) {
        CHECK(task.window == 2);
        CHECK(task.batch == 50);
        CHECK(task.form == Form::kStartall);
        CHECK(task.slots() == 2);
    }
    options.window_asked = true;
    CHECK(plan(options, true)[0].window == 32);
    options.orders = {Order::kGraph};
    options.window = 2;
    CHECK(plan(options, true)[0].batch == 20);
    CHECK(plan(options, true)[1].batch == 3); // of 512 KiB, a graph has room for six
    options.validate = true;
    CHECK(plan(options, true)[0].batch == 1);
}

TEST_CASE("as many collectives are made together as was asked for, in whole windows") {
    auto options = options_of(Test::kCollective, {8, 64 * kMiB}, Order::kStream);
    options.window = 3;
    options.window_asked = true;
    CHECK(plan(options, true)[0].window == 1);
    for (const Form form : {Form::kRequests, Form::kGroup}) {
        options.collective_form = form;
        for (const Task& task : plan(options, true)) {
            CHECK(task.window == 3);
            CHECK(task.batch % 3 == 0);
            CHECK(static_cast<size_t>(task.slots()) * task.bytes <= arena_limit(options, true));
        }
        options.validate = true;
        CHECK(plan(options, true)[0].batch == 3);
        options.validate = false;
    }
}

TEST_CASE("collectives run one after the other, in them the order domains, in them the sizes that they can have") {
    Options options;
    options.tests = {Test::kCollective};
    options.collectives = {Collective::kAllgather, Collective::kBarrier};
    options.sizes = {1, 8, 16, 5000};
    const auto tasks = plan(options, false, 4);
    REQUIRE(tasks.size() == 6);
    CHECK(tasks[0].collective == Collective::kAllgather);
    CHECK(tasks[0].order == Order::kStream);
    CHECK(tasks[0].bytes == 16); // a float of each rank; three sizes come to that
    CHECK(tasks[1].bytes == 4992);
    CHECK(tasks[2].order == Order::kHost);
    CHECK(tasks[4].collective == Collective::kBarrier);
    CHECK(tasks[4].bytes == 0);
    for (const Task& task : tasks)
        CHECK(task.ranks == 4);
}

TEST_CASE("a sample of a collective is one call in host order, a batch in stream order, and one if each is checked") {
    auto options = options_of(Test::kCollective, {8}, Order::kHost);
    CHECK(only(options).batch == 1);
    options.orders = {Order::kStream};
    CHECK(only(options).batch == 50);
    CHECK(only(options).turns * only(options).samples * only(options).batch == 500);
    options.validate = true;
    CHECK(only(options).batch == 1);
}

TEST_CASE("a graph has as many collectives as there is room for, of two messages each way between two ranks") {
    auto options = options_of(Test::kCollective, {8}, Order::kGraph);
    CHECK(only(options).batch == 20);
    CHECK(only(options).batch * only(options).runs >= 50);
    options.sizes = {128 * 1024};
    CHECK(only(options).batch == 12);
    options.sizes = {512 * 1024};
    CHECK(only(options).batch == 3);
    options.sizes = {64 * 1024};
    CHECK(plan(options, false, 8)[0].batch == 1); // more ranks have less room
    options.sizes = {4 * kMiB};                   // its messages stay in their buffers
    CHECK(only(options).batch == 20);
    options.sizes = {256 * kMiB}; // but not what is reduced
    CHECK(only(options, true).batch == 1);
}

TEST_CASE("a broadcast is always in place, a barrier never, others if asked for") {
    auto options = options_of(Test::kCollective, {8}, Order::kHost);
    options.collectives = {Collective::kBcast, Collective::kBarrier, Collective::kAlltoall};
    CHECK(plan(options, false)[0].in_place);
    CHECK_FALSE(plan(options, false)[2].in_place);
    options.in_place = true;
    CHECK_FALSE(plan(options, false)[1].in_place);
    CHECK(plan(options, false)[2].in_place);
}

TEST_CASE("references are held against what they can do") {
    Task task{.test = Test::kCollective};
    CHECK_FALSE(measures(Reference::kCopy, task));
    CHECK(measures(Reference::kNccl, task));
    CHECK(measures(Reference::kNcclWindow, task));
    task.collective = Collective::kAlltoall;
    CHECK(measures(Reference::kNccl, task));
    task.in_place = true;
    CHECK_FALSE(measures(Reference::kNccl, task));
    CHECK_FALSE(measures(Reference::kNcclWindow, Task{.test = Test::kLatency}));
    CHECK(measures(Reference::kCopy, Task{.test = Test::kLatency}));
    CHECK_FALSE(measures(Reference::kNccl, Task{.test = Test::kFirst}));
    for (const Reference network : {Reference::kTcp, Reference::kFabric}) {
        CHECK(measures(network, Task{.test = Test::kLatency, .order = Order::kHost}));
        CHECK(measures(network, Task{.test = Test::kRate, .order = Order::kHost}));
        CHECK_FALSE(measures(network, Task{.test = Test::kLatency, .order = Order::kStream}));
        CHECK_FALSE(measures(network, Task{.test = Test::kBidirectional, .order = Order::kHost}));
        CHECK_FALSE(measures(network, Task{.test = Test::kCollective, .order = Order::kHost}));
    }
}

TEST_CASE("a captured batch runs several times a sample, unless each run is checked") {
    auto options = options_of(Test::kLatency, {8}, Order::kGraph);
    const Task task = only(options);
    CHECK(task.batch == 20);
    CHECK(task.batch * task.runs >= 50);
    CHECK(task.turns * task.samples * task.batch * task.runs >= 500);
    options.validate = true;
    CHECK(only(options).runs == 1);
    CHECK(only(options).slots() == 20);
}

TEST_CASE("a graph has no more messages than there is room for, where they cannot stay in their buffers") {
    CHECK(only(options_of(Test::kLatency, {512 * 1024}, Order::kGraph)).batch == 6);
    CHECK(only(options_of(Test::kLatency, {kMiB}, Order::kGraph)).batch == 20);
    auto window = options_of(Test::kBandwidth, {64 * 1024}, Order::kGraph);
    CHECK(only(window).window == 16);
    window.memory[1] = Memory::kDeviceAsync;
    CHECK(plan(window, false, 8)[0].window == 3);
    window.sizes = {64};
    CHECK(only(window).window == 64);
    auto batch = options_of(Test::kLatency, {64 * kMiB}, Order::kGraph);
    batch.memory[0] = Memory::kPinned;
    CHECK(only(batch).batch == 2); // each is copied aside
}

TEST_CASE("a graph's window leaves room on a GPU for what its kernels wait for") {
    for (size_t bytes : {size_t{8}, size_t{16} << 10})
        CHECK(only(options_of(Test::kRate, {bytes}, Order::kGraph)).window == 64);
    for (size_t bytes : {kMiB, 64 * kMiB})
        CHECK(only(options_of(Test::kBidirectional, {bytes}, Order::kGraph), true).window == 4);
    auto few = options_of(Test::kRate, {kMiB}, Order::kGraph);
    few.window = 2;
    CHECK(only(few).window == 2);
}

TEST_CASE("graphs are measured where their messages are") {
    Options options;
    options.tests = {Test::kLatency, Test::kOverlap, Test::kCall, Test::kFirst, Test::kRate};
    options.orders = {Order::kGraph};
    options.sizes = {8};
    const auto tasks = plan(options, false);
    REQUIRE(tasks.size() == 2);
    CHECK(tasks[0].test == Test::kLatency);
    CHECK(tasks[1].test == Test::kRate);
}

TEST_CASE("a window is as large as asked for while there is room, and never empty") {
    CHECK(only(options_of(Test::kRate, {8}, Order::kHost)).window == 64);
    CHECK(only(options_of(Test::kBandwidth, {16 * kMiB}, Order::kHost)).window == 8);
    CHECK(only(options_of(Test::kBandwidth, {1024 * kMiB}, Order::kHost)).window == 1);
    CHECK(only(options_of(Test::kBandwidth, {256 * kMiB}, Order::kHost), true).window == 4);
    CHECK(only(options_of(Test::kLatency, {8}, Order::kHost)).window == 1);
}

TEST_CASE("calls in flight stay below what makes a receive ask its sender, unless asked for") {
    Options options = options_of(Test::kCall, {kMiB}, Order::kStream);
    CHECK(only(options).window == 32);
    options.window_asked = true;
    CHECK(only(options).window == 64);
}

TEST_CASE("host memory on either side keeps the buffers of GPUs small") {
    Options options;
    const size_t devices = arena_limit(options, true);
    options.memory[1] = Memory::kPinned;
    CHECK(arena_limit(options, true) < devices);
}

TEST_CASE("few iterations are few, and large messages take fewer than small ones") {
    for (Test test : {Test::kLatency, Test::kBandwidth, Test::kBidirectional, Test::kRate, Test::kExchange,
                      Test::kCollective, Test::kOverlap, Test::kCall, Test::kFirst, Test::kLoan}) {
        auto options = options_of(test, {8}, Order::kStream);
        options.iterations = 1;
        const Task one = only(options);
        CHECK(one.turns * one.samples * one.batch == 1);
        if (measured_in(Order::kGraph, test)) {
            options.orders = {Order::kGraph};
            const Task run = only(options);
            CHECK(run.turns * run.samples * run.batch * run.runs == 1);
            options.orders = {Order::kStream};
        }
        options.iterations = 500;
        const int small = only(options).samples;
        options.sizes = {256 * kMiB};
        CHECK(only(options).samples <= small);
        CHECK(only(options).samples >= 1);
    }
}

TEST_CASE("each test has sizes of its own, larger on GPUs") {
    Options options;
    options.tests = {Test::kRate};
    options.orders = {Order::kHost};
    CHECK(only(options).bytes == 8);
    options.tests = {Test::kBandwidth};
    CHECK(plan(options, true).back().bytes == 256 * kMiB);
    CHECK(plan(options, false).back().bytes == 4 * kMiB);
}
