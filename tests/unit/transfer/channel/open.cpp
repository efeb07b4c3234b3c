// What ranks tell each other, and that each reaches every other.
#include "transfer/channel/open.hpp"
#include "device/open.hpp"
#include "support/unit.hpp"

#include <climits>
#include <string>

using namespace gpurun;
using gpurun::test::must;

namespace {

// A rank of a job, with a device of its own.
struct Told {
    Told(const platform::JobSegment& job, uint32_t rank, const base::Settings& settings)
        : device(must(device::open_device(
              {.selector = "emulated:" + std::to_string(rank) + "/2", .emulated_memory_bytes = size_t{1} << 20}))),
          here{*device, job, settings, base::WorldRank{rank}, facts} {
        facts.device = device->info().identity;
    }
    const std::unique_ptr<device::Device> device;
    transfer::RankFacts facts;
    transfer::ChannelSite here;
};

device::MemoryHandle handle_of(int number) {
    device::MemoryHandle handle{};
    handle.bytes.fill(static_cast<std::byte>(number));
    return handle;
}

} // namespace

TEST_SUITE_BEGIN("channels of a rank");

TEST_CASE("a rank reaches every rank, itself included, and knows what each has told") {
    const platform::JobSegment job = must(platform::JobSegment::create(2, 2));
    const base::Settings settings;
    Told first(job, 0, settings);
    Told second(job, 1, settings);
    first.facts.probe = handle_of(1);
    second.facts.workspace = handle_of(2);
    second.facts.orders_by_events = true;
    second.facts.checks = true;
    second.facts.algorithms.bcast = must(base::AlgorithmRules::read("tree:4K,direct", UINT_MAX));
    REQUIRE_OK(transfer::publish_rank(first.here));
    REQUIRE_OK(transfer::publish_rank(second.here));
    for (const Told* each : {&first, &second}) {
        const auto channels = must(transfer::open_channels(each->here));
        REQUIRE(channels.size() == 2);
        for (const Told* other : {&first, &second}) {
            const transfer::PeerChannel& channel = *channels[other->here.self.value];
            CHECK(channel.peer() == other->here.self);
            CHECK(channel.to_self() == (other == each));
            CHECK((channel.facts().device == other->facts.device));
            CHECK(channel.facts().orders_by_events == other->facts.orders_by_events);
            CHECK(channel.facts().checks == other->facts.checks);
            CHECK(channel.facts().algorithms == other->facts.algorithms);
            CHECK(channel.facts().probe.has_value() == (other == &first));
            CHECK(channel.facts().workspace.has_value() == (other == &second));
        }
        CHECK(channels[0]->facts().probe->bytes == handle_of(1).bytes);
        CHECK(channels[1]->facts().workspace->bytes == handle_of(2).bytes);
    }
}

TEST_CASE("a rank of another node cannot be reached by shared memory") {
    const platform::JobSegment job = must(platform::JobSegment::create(2, 2));
    job.rank(1).node = 1;
    const base::Settings settings;
    const Told self(job, 0, settings);
    CHECK_STATUS(transfer::open_channels(self.here), base::Status::kSystem);
}

TEST_SUITE_END();
