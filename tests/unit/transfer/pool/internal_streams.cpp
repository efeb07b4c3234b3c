// Which internal streams are given, and to whom else: on an emulated device, on which nothing is enqueued.
#include "transfer/pool/internal_streams.hpp"
#include "one_device.hpp"
#include "support/made_up.hpp"

#include <algorithm>
#include <set>
#include <vector>

using namespace gpurun;
using gpurun::test::made_up;
using gpurun::test::must;
using transfer::InternalStreams;
using transfer::StreamLimits;

namespace {

const StreamLimits kLimits = transfer::stream_limits(32);
const size_t kHalf = kLimits.messages / 2; // of which there are some to spare

struct StreamsBench {
    std::unique_ptr<device::Device> device = gpurun::test::open_one_device();
    InternalStreams streams{*device, kLimits};
    uint64_t markers = 0;

    std::vector<void*> take_behind(uint64_t name, size_t count) {
        std::vector<void*> taken;
        for (size_t i = 0; i < count; ++i)
            taken.push_back(must(streams.take_behind(name, ++markers)).native);
        return taken;
    }
    void take_back(const std::vector<void*>& taken) {
        for (void* const native : taken)
            streams.give_back(made_up<device::Stream>(native), InternalStreams::State::kIdle);
    }
};

size_t distinct(const std::vector<void*>& streams) { return std::set<void*>(streams.begin(), streams.end()).size(); }

} // namespace

TEST_SUITE_BEGIN("internal streams");

TEST_CASE("the internal streams that may wait are fewer than the rank's hardware queues") {
    for (uint32_t queues = 6; queues <= 1024; ++queues) {
        const StreamLimits limits = transfer::stream_limits(queues);
        CAPTURE(queues);
        CHECK(limits.messages + limits.takers + limits.alarms < queues);
        CHECK(limits.messages >= 2);
    }
}

// Each engine has the limits of the time when it came, but for its messages.
TEST_CASE("the internal streams of all engines of a rank that may wait are fewer than its hardware queues") {
    for (uint32_t queues = 8; queues <= 1024; ++queues)
        for (uint32_t engines = 2; engines <= 16 && queues >= (engines == 2 ? 8 : 5 * engines); ++engines) {
            const size_t messages = transfer::stream_limits(queues, engines).messages;
            size_t all = 0;
            for (uint32_t before = 1; before <= engines; ++before) {
                const StreamLimits limits = transfer::stream_limits(queues, before);
                all += std::min(limits.messages, messages) + limits.takers + limits.alarms;
            }
            CAPTURE(queues);
            CAPTURE(engines);
            CHECK(all < queues);
            CHECK(messages >= 1);
        }
}

TEST_CASE("an engine that comes later takes its part of the streams for messages") {
    const std::unique_ptr<device::Device> device = gpurun::test::open_one_device();
    transfer::EngineCount engines{1};
    InternalStreams streams(*device, kLimits, 32, engines);
    std::set<void*> taken;
    for (size_t i = 0; i < kLimits.messages; ++i)
        taken.insert(must(streams.take()).native);
    CHECK(taken.size() == kLimits.messages);
    engines = 2;
    taken.clear();
    for (size_t i = 0; i < kLimits.messages; ++i)
        taken.insert(must(streams.take()).native);
    CHECK(taken.size() == transfer::stream_limits(32, 2).messages);
}

TEST_CASE("what is behind markers of one stream leaves half of the internal streams to others, however much it is") {
    StreamsBench bench;
    const std::vector<void*> behind = bench.take_behind(1, 100);
    CHECK(distinct(behind) == kHalf);
    for (size_t i = 0; i < kHalf; ++i)
        CHECK(std::count(behind.begin(), behind.end(), must(bench.streams.take()).native) == 0);
}

TEST_CASE("what is behind markers of several streams shares only with its own kind, and spreads") {
    StreamsBench bench;
    std::vector<void*> first = bench.take_behind(1, kHalf / 2), second = bench.take_behind(2, kHalf / 2);
    CHECK(distinct(first) + distinct(second) == kHalf);
    const std::vector<void*> more = bench.take_behind(1, kHalf / 2);
    CHECK(distinct(more) == kHalf / 2);
    for (void* const each : more)
        CHECK(std::count(first.begin(), first.end(), each) == 1);
    const std::vector<void*> third = bench.take_behind(3, 2);
    CHECK(distinct(third) == 1); // a new one, then that
    CHECK(std::count(second.begin(), second.end(), third[0]) + std::count(first.begin(), first.end(), third[0]) == 0);
}

TEST_CASE("what is behind an earlier place goes behind nothing that waits for a later one") {
    StreamsBench bench;
    const std::vector<void*> later = bench.take_behind(1, kHalf);
    const void* const earlier = must(bench.streams.take_behind(1, 3)).native;
    CHECK(std::count(later.begin() + 3, later.end(), earlier) == 0);
    const void* const first = must(bench.streams.take_behind(1, 0)).native;
    CHECK(std::count(later.begin(), later.end(), first) == 0);
    CHECK(first != earlier);
}

TEST_CASE("a stream that was given back has nobody's markers before it") {
    StreamsBench bench;
    const std::vector<void*> behind = bench.take_behind(1, 1);
    bench.take_back(behind);
    std::vector<void*> others;
    for (size_t i = 0; i < kHalf; ++i)
        others.push_back(must(bench.streams.take()).native);
    CHECK(std::count(others.begin(), others.end(), behind[0]) == 1);
    CHECK(std::count(others.begin(), others.end(), bench.take_behind(1, 1)[0]) == 0);
}

TEST_CASE("a stream whose end a stream of the program awaits is taken again for work behind that one") {
    using State = InternalStreams::State;
    StreamsBench bench;
    const device::Counter over{0};
    const transfer::StreamEnd end{&over, 1};
    const device::Stream joined = must(bench.streams.take_again(1));
    bench.streams.note_joined(joined, 1);
    bench.streams.give_back(joined, State::kWaiting, end);
    CHECK(must(bench.streams.take_again(2)) != joined);
    CHECK(must(bench.streams.take_again(1)) == joined);
    CHECK(must(bench.streams.take_again(1)) != joined); // somebody has it
}

TEST_CASE("a stream that another had a part of is not taken for one that is joined") {
    StreamsBench bench;
    const device::Counter over{0};
    std::vector<void*> taken;
    for (size_t i = 0; i < kLimits.messages; ++i)
        taken.push_back(must(bench.streams.take()).native);
    const device::Stream shared = must(bench.streams.take());
    bench.streams.give_back(shared, InternalStreams::State::kWaiting);
    bench.streams.note_joined(shared, 1);
    bench.streams.give_back(shared, InternalStreams::State::kWaiting, {&over, 1});
    const auto other = std::find_if(taken.begin(), taken.end(), [&](void* each) { return each != shared.native; });
    bench.streams.give_back(made_up<device::Stream>(*other), InternalStreams::State::kIdle); // the better one
    CHECK(must(bench.streams.take_again(1)) != shared);
}

TEST_CASE("a stream of one's own is given to nobody else") {
    StreamsBench bench;
    std::set<void*> own;
    for (int i = 0; i < 4; ++i)
        own.insert(must(bench.streams.own()).native);
    CHECK(own.size() == 4);
    for (size_t i = 0; i < 2 * kLimits.messages; ++i)
        CHECK(own.count(must(bench.streams.take()).native) == 0);
}

TEST_CASE("what was given back and waits still shares its stream with what is behind later markers") {
    StreamsBench bench;
    device::Counter over{0};
    const std::vector<void*> behind = bench.take_behind(1, kHalf);
    for (void* const native : behind)
        bench.streams.give_back(made_up<device::Stream>(native), InternalStreams::State::kWaiting, {&over, 1});
    const std::vector<void*> more = bench.take_behind(1, 100);
    CHECK(distinct(more) == kHalf);
    for (void* const each : more)
        CHECK(std::count(behind.begin(), behind.end(), each) == 1);
    CHECK(!must(bench.streams.take_spare()));
    bench.take_back(more);
    over = 1;
    CHECK(must(bench.streams.take_spare()));
}

TEST_CASE("no more share a stream than CUDA lets wait there") {
    StreamsBench bench;
    const std::vector<void*> full = bench.take_behind(1, kHalf * InternalStreams::kMostShared);
    CHECK(distinct(full) == kHalf);
    void* const next = bench.take_behind(1, 1)[0];
    CHECK(std::count(full.begin(), full.end(), next) == 0);
}

TEST_CASE("a message that waits for nobody goes into a stream in which nobody waits") {
    StreamsBench bench;
    std::set<void*> waiting;
    for (size_t i = 0; i < kLimits.messages; ++i) {
        waiting.insert(must(bench.streams.take_ready()).native);
        CHECK(waiting.size() == i + 1); // one of its own, while there is one
    }
    for (size_t i = 0; i < kLimits.messages; ++i) {
        const device::Stream taken = must(bench.streams.take_ready());
        CHECK(waiting.count(taken.native) == 0);
        bench.streams.give_back(taken, InternalStreams::State::kWaiting);
    }
}

TEST_CASE("brief work has few streams, which are given to nobody else") {
    StreamsBench bench;
    std::set<void*> brief;
    for (size_t i = 0; i < 3 * StreamLimits::kBrief; ++i)
        brief.insert(must(bench.streams.brief()).native);
    CHECK(brief.size() == StreamLimits::kBrief);
    for (size_t i = 0; i < 2 * kLimits.messages; ++i)
        CHECK(brief.count(must(bench.streams.take()).native) == 0);
}
