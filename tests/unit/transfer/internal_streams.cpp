// Which internal streams are given, and to whom else: on an emulated device, on which nothing is enqueued.
#include "support/unit.hpp"
#include "transfer/context.hpp"

#include <algorithm>
#include <set>
#include <vector>

using namespace gpurun;
using gpurun::test::must;
using transfer::Streams;

namespace {

struct Bench {
    std::unique_ptr<device::Device> device = [] {
        device::Options options;
        options.selector = "emulated:0/1";
        options.emulated_memory_bytes = size_t{1} << 20;
        return must(device::open_device(options));
    }();
    Streams streams{*device};

    std::vector<void*> take_behind(uint64_t name, size_t count) {
        std::vector<void*> taken;
        for (size_t i = 0; i < count; ++i)
            taken.push_back(must(streams.take_behind(name)).native);
        return taken;
    }
    void take_back(const std::vector<void*>& taken) {
        for (void* const native : taken)
            streams.take_back({native}, Streams::State::kIdle);
    }
};

size_t distinct(const std::vector<void*>& streams) { return std::set<void*>(streams.begin(), streams.end()).size(); }

} // namespace

TEST_SUITE_BEGIN("internal streams");

TEST_CASE("what is behind places of one stream leaves half of the internal streams to others, however much it is") {
    Bench bench;
    const std::vector<void*> behind = bench.take_behind(1, 100);
    CHECK(distinct(behind) == Streams::kMostWithSpare);
    for (size_t i = 0; i < Streams::kMostWithSpare; ++i)
        CHECK(std::count(behind.begin(), behind.end(), must(bench.streams.take()).native) == 0);
}

TEST_CASE("what is behind places of several streams shares only with its own kind, and spreads") {
    Bench bench;
    std::vector<void*> first = bench.take_behind(1, 8), second = bench.take_behind(2, 8);
    CHECK(distinct(first) + distinct(second) == 16);
    const std::vector<void*> more = bench.take_behind(1, 8);
    CHECK(distinct(more) == 8);
    for (void* const each : more)
        CHECK(std::count(first.begin(), first.end(), each) == 1);
    const std::vector<void*> third = bench.take_behind(3, 2);
    CHECK(distinct(third) == 1); // a new one, then that
    CHECK(std::count(second.begin(), second.end(), third[0]) + std::count(first.begin(), first.end(), third[0]) == 0);
}

TEST_CASE("a stream that was given back has nobody's places before it") {
    Bench bench;
    const std::vector<void*> behind = bench.take_behind(1, 1);
    bench.take_back(behind);
    std::vector<void*> others;
    for (size_t i = 0; i < Streams::kMostWithSpare; ++i)
        others.push_back(must(bench.streams.take()).native);
    CHECK(std::count(others.begin(), others.end(), behind[0]) == 1);
    CHECK(std::count(others.begin(), others.end(), bench.take_behind(1, 1)[0]) == 0);
}

TEST_CASE("a stream of one's own is given to nobody else") {
    Bench bench;
    std::set<void*> own;
    for (int i = 0; i < 4; ++i)
        own.insert(must(bench.streams.own()).native);
    CHECK(own.size() == 4);
    for (size_t i = 0; i < 2 * Streams::kMost; ++i)
        CHECK(own.count(must(bench.streams.take()).native) == 0);
}

TEST_CASE("brief work gets a stream that nobody else has, a new one where others may need the internal ones") {
    Bench bench;
    const device::Stream spare = must(bench.streams.take_briefly());
    must(bench.streams.take_back_brief(spare, Streams::State::kIdle));
    std::set<void*> taken;
    while (taken.size() < Streams::kMostWithSpare)
        taken.insert(must(bench.streams.take()).native);
    CHECK(taken.count(spare.native) == 1); // it was of these
    const device::Stream made = must(bench.streams.take_briefly());
    CHECK(taken.count(made.native) == 0);
    must(bench.streams.take_back_brief(made, Streams::State::kIdle));
    CHECK(!bench.device->query(made)); // it is gone
}
