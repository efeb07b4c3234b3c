// Mappings of a peer's memory, between two emulated devices of one process.
#include "transfer/import_cache.hpp"
#include "support/unit.hpp"

#include <unistd.h>

using namespace gpurun;
using base::Status;
using gpurun::test::must;

namespace {

constexpr int kPeer = 7;

std::unique_ptr<device::Device> open_emulated(const char* selector) {
    device::Options options;
    options.selector = selector;
    options.emulated_memory_bytes = size_t{1} << 20;
    return must(device::open_device(options));
}

// All edges have been reached.
class DoneFence final : public transfer::Fence {
  public:
    DoneFence() : Fence(nullptr) {}
    base::Result<void> signal(transfer::Edge, uint32_t, uint64_t, device::Stream) override { return {}; }
    base::Result<void> await(transfer::Edge, uint32_t, uint64_t, device::Stream) override { return {}; }
    base::Result<bool> reached(transfer::Edge, uint32_t, uint64_t) override { return true; }
    base::Result<bool> cut_short(transfer::Edge, uint32_t, uint64_t) override { return false; }
};

struct Pair {
    std::unique_ptr<device::Device> exporter = open_emulated("emulated:0/2");
    std::unique_ptr<device::Device> importer = open_emulated("emulated:1/2");
    DoneFence fence;

    Pair() { REQUIRE_OK(importer->add_peer(kPeer, exporter->info().identity, dup(exporter->shareable_fd()))); }

    // A message at `offset` of a new allocation.
    transfer::SourceBuffer source(size_t bytes, size_t offset) const {
        const device::Buffer buffer = must(exporter->describe(must(exporter->allocate(bytes)), bytes));
        transfer::SourceBuffer made{};
        made.exportable = 1;
        made.handle = must(exporter->export_memory(buffer));
        made.allocation_id = buffer.id;
        made.allocation_base = reinterpret_cast<uint64_t>(buffer.base);
        made.allocation_bytes = buffer.size;
        made.offset = offset;
        return made;
    }
};

} // namespace

TEST_SUITE_BEGIN("import cache");

TEST_CASE("an allocation is mapped once, and its messages lie at their offsets") {
    Pair pair;
    transfer::ImportCache cache(*pair.importer, pair.fence, kPeer);
    transfer::SourceBuffer source = pair.source(10'000, 0);
    REQUIRE_OK(cache.open(source));
    CHECK(cache.has(source.allocation_id));
    REQUIRE_OK(cache.open(source));
    const std::byte* const base = must(cache.address(source, 0, 2));
    source.offset = 77;
    CHECK(must(cache.address(source, 0, 4)) == base + 77);
    CHECK(cache.size() == 1);
}

TEST_CASE("what cannot be mapped leaves no mapping behind, and harms none") {
    Pair pair;
    transfer::ImportCache cache(*pair.importer, pair.fence, kPeer);
    const transfer::SourceBuffer good = pair.source(10'000, 0);
    transfer::SourceBuffer bad = pair.source(10'000, 0);
    bad.handle = {};
    REQUIRE_OK(cache.open(good));
    CHECK_STATUS(cache.open(bad), Status::kBuffer);
    CHECK_STATUS(cache.address(bad, 0, 2), Status::kBuffer);
    CHECK_FALSE(cache.has(bad.allocation_id));
    CHECK(cache.has(good.allocation_id));
    cache.revoke(good.allocation_id);
    REQUIRE_OK(cache.sweep());
    CHECK(cache.size() == 0);
}

TEST_SUITE_END();
