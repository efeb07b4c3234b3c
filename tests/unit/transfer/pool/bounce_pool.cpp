// Which device memory messages bounce in, and when it is used again.
#include "transfer/pool/bounce_pool.hpp"
#include "fence/cpu_fence.hpp"
#include "support/unit.hpp"

#include "device/open.hpp"

#include <memory>
#include <vector>

using namespace gpurun;
using gpurun::test::must;
using transfer::BouncePool;
using transfer::CompletionPoint;
using transfer::Edge;
using transfer::Slot;

namespace {

constexpr size_t kTakenBytes = size_t{4} << 20;

std::unique_ptr<device::Device> open_large_device() {
    device::Options options;
    options.selector = "emulated:0/1";
    options.emulated_memory_bytes = size_t{256} << 20;
    return must(device::open_device(options));
}

struct Bench {
    std::unique_ptr<device::Device> device = open_large_device();
    BouncePool bounces;

    explicit Bench(uint32_t ranks_on_device = 1) : bounces(*device, ranks_on_device) {}
    std::vector<BouncePool::Buffer> take_all() {
        std::vector<BouncePool::Buffer> all;
        while (const auto buffer = bounces.take(kTakenBytes))
            all.push_back(*buffer);
        return all;
    }
};

} // namespace

TEST_SUITE_BEGIN("bounce pool");

TEST_CASE("what is taken is memory of the device that can be exported, and nobody else's") {
    Bench bench;
    const auto one = bench.bounces.take(1000), other = bench.bounces.take(1000);
    REQUIRE(one);
    REQUIRE(other);
    const device::Buffer there = must(bench.device->describe(one->data, 1000));
    CHECK(there.placement == device::Placement::kDevice);
    CHECK(there.exportable);
    CHECK(there.id == one->where.id);
    CHECK((other->data >= one->data + 1000 || other->data + 1000 <= one->data));
    CHECK(bench.bounces.lent() == 2);
    bench.bounces.give_back(*one);
    CHECK(bench.bounces.take(1000)->data == one->data);
}

TEST_CASE("there is room for 128 MiB, and less where many ranks share the device") {
    for (const auto& each : {std::pair(1U, 32U), std::pair(4U, 32U), std::pair(8U, 16U), std::pair(64U, 4U)}) {
        const uint32_t ranks = each.first, most = each.second;
        CAPTURE(ranks);
        Bench bench(ranks);
        const auto all = bench.take_all();
        CHECK(all.size() == most);
        CHECK(!bench.bounces.take(kTakenBytes));
        for (const BouncePool::Buffer& buffer : all)
            bench.bounces.give_back(buffer);
        CHECK(bench.take_all().size() == most);
    }
    Bench bench;
    CHECK(!bench.bounces.take(BouncePool::kSlabBytes + 1));
}

TEST_CASE("what is left is used again once both edges have come") {
    Bench bench;
    gpurun::test::CpuFence fence;
    const auto all = bench.take_all();
    const Slot first{transfer::SlotClass::kRendezvous, true, 0, 0, 2},
        second{transfer::SlotClass::kRendezvous, true, 1, 0, 2};
    bench.bounces.leave(all[0], CompletionPoint::at(fence, Edge::kBackward, first));
    bench.bounces.leave(all[1], CompletionPoint::at(fence, Edge::kBackward, second));
    CHECK(bench.bounces.lent() == all.size() - 2);
    CHECK(!bench.bounces.take(kTakenBytes));
    fence.poison(Edge::kBackward, second); // its reader has died, and this rank is still to write it
    CHECK(!bench.bounces.take(kTakenBytes));
    fence.signal_now(Edge::kForward, second);
    const auto again = bench.bounces.take(kTakenBytes);
    REQUIRE(again);
    CHECK(again->data == all[1].data);
    CHECK(!bench.bounces.take(kTakenBytes));
    fence.signal_now(Edge::kForward, first);
    CHECK(!bench.bounces.take(kTakenBytes));
    fence.signal_now(Edge::kBackward, first);
    CHECK(bench.bounces.take(kTakenBytes)->data == all[0].data);
}

TEST_SUITE_END();
