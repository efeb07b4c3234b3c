// Mappings of a peer's memory: found again, closed when nobody reads them, held for graphs. Two emulated devices.
#include "transfer/memory/import_cache.hpp"
#include "device/open.hpp"
#include "fence/cpu_fence.hpp"
#include "support/unit.hpp"

#include <unistd.h>

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::CpuFence;
using gpurun::test::must;

namespace {

constexpr int kPeer = 1;
constexpr size_t kBytes = 4096;
constexpr Slot kCopy{SlotClass::kRendezvous, true, 3, 0, kSlotStep}; // that has not ended

std::unique_ptr<device::Device> open_emulated(const char* selector) {
    device::Options options;
    options.selector = selector;
    options.emulated_memory_bytes = size_t{16} << 20;
    return must(device::open_device(options));
}

struct CacheBench {
    CacheBench() {
        const int fd = ::dup(exporter->shareable_fd());
        REQUIRE(fd >= 0);
        REQUIRE_OK(importer->add_peer(kPeer, exporter->info().identity, fd));
    }
    // What a source says of a message at `offset` of a new allocation.
    RemoteBuffer allocate(uint64_t offset = 0) const {
        void* const memory = must(exporter->allocate(kBytes));
        const device::Buffer buffer = must(exporter->describe(memory, kBytes));
        RemoteBuffer source{};
        source.exporter = transfer::Exporter::kSender;
        source.handle = must(exporter->export_memory(buffer));
        source.allocation_id = buffer.id;
        source.allocation_base = reinterpret_cast<uint64_t>(buffer.base);
        source.allocation_bytes = buffer.size;
        source.offset = offset;
        return source;
    }
    bool readable(const std::byte* address) const {
        const device::Stream stream = must(importer->create_stream());
        void* const pinned = must(importer->allocate_pinned(kBytes));
        const bool copied = static_cast<bool>(importer->copy(pinned, address, 1, stream));
        REQUIRE_OK(importer->destroy_stream(stream));
        REQUIRE_OK(importer->free_pinned(pinned));
        return copied;
    }

    std::unique_ptr<device::Device> exporter = open_emulated("emulated:0/2");
    std::unique_ptr<device::Device> importer = open_emulated("emulated:1/2");
    CpuFence fence;
    bool waits_for_graph = false;
    TryQuiescence quiescence = [this] { return waits_for_graph ? std::nullopt : Quiescence(std::in_place); };
    ImportCache cache{*importer, fence, kPeer, quiescence};
};

} // namespace

TEST_SUITE_BEGIN("import cache");

TEST_CASE("an allocation is mapped once, whoever asks for it") {
    CacheBench bench;
    RemoteBuffer source = bench.allocate(100);
    REQUIRE_OK(bench.cache.open(source));
    CHECK(bench.cache.has(source.allocation_id));
    REQUIRE_OK(bench.cache.open(source));
    const std::byte* const first = must(bench.cache.address(source, Slot{}));
    CHECK(must(bench.cache.hold(source)) == first);
    source.offset = 107;
    CHECK(must(bench.cache.hold(source)) == first + 7);
    CHECK(bench.cache.size() == 1);
    bench.cache.release(source.allocation_id);
    bench.cache.release(source.allocation_id);
    CHECK(bench.cache.has(source.allocation_id)); // for the next
    CHECK(bench.readable(first));
}

TEST_CASE("what cannot be mapped leaves no mapping behind, and harms none") {
    CacheBench bench;
    const RemoteBuffer good = bench.allocate();
    RemoteBuffer bad = bench.allocate();
    bad.handle = {};
    REQUIRE_OK(bench.cache.open(good));
    CHECK_STATUS(bench.cache.open(bad), base::Status::kBuffer);
    CHECK_STATUS(bench.cache.address(bad, kCopy), base::Status::kBuffer);
    CHECK_STATUS(bench.cache.hold(bad), base::Status::kBuffer);
    CHECK_FALSE(bench.cache.has(bad.allocation_id));
    CHECK(bench.cache.has(good.allocation_id));
}

TEST_CASE("a revoked mapping is closed when the copies from it are done") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate();
    const std::byte* const address = must(bench.cache.address(source, kCopy));
    bench.cache.revoke(source.allocation_id);
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.readable(address));
    bench.fence.signal_now(Edge::kBackward, kCopy);
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(source.allocation_id));
    CHECK_FALSE(bench.readable(address));
}

TEST_CASE("a borrowed mapping stays until it is given back and its last use is over") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate(8);
    const std::byte* const address = must(bench.cache.borrow(source));
    CHECK(must(bench.cache.borrow(source)) == address);
    RemoteBuffer newer = source; // at its address, since the lender has freed it all the same
    newer.allocation_id = source.allocation_id + 1000;
    bench.cache.revoke(source.allocation_id);
    bench.cache.give_back(source.allocation_id, std::nullopt);
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.readable(address));
    CHECK_FALSE(bench.cache.can_open(newer));
    CHECK_FALSE(bench.cache.can_open_later(newer));
    bench.cache.give_back(source.allocation_id, CompletionPoint::at(bench.fence, Edge::kForward, kCopy));
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.readable(address));
    CHECK(bench.cache.can_open_later(newer));
    bench.fence.signal_now(Edge::kForward, kCopy);
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(source.allocation_id));
}

TEST_CASE("a mapping stays as long as any copy from it is to be made, whatever later ones have come to") {
    CacheBench bench;
    const Slot later{SlotClass::kRendezvous, true, 4, 0, kSlotStep};
    const RemoteBuffer source = bench.allocate();
    const std::byte* const address = must(bench.cache.address(source, kCopy)); // of a stream that is held
    (void)must(bench.cache.address(source, later));
    bench.fence.signal_now(Edge::kBackward, later);
    RemoteBuffer next = bench.allocate();
    next.allocation_base = source.allocation_base;
    CHECK_FALSE(bench.cache.can_open(next));
    while (bench.cache.size() < ImportCache::kLimit)
        (void)must(bench.cache.address(bench.allocate(), kCopy));
    (void)must(bench.cache.address(bench.allocate(), kCopy));
    bench.cache.revoke(source.allocation_id);
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.readable(address));
    bench.fence.signal_now(Edge::kBackward, kCopy);
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(source.allocation_id));
}

TEST_CASE("a revoked mapping stays while a graph holds it, or two") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate();
    const std::byte* const address = must(bench.cache.hold(source));
    (void)must(bench.cache.hold(source));
    bench.cache.revoke(source.allocation_id);
    bench.cache.revoke(source.allocation_id);
    for (int holders = 2; holders > 0; --holders) {
        REQUIRE_OK(bench.cache.sweep());
        CHECK(bench.readable(address));
        bench.cache.release(source.allocation_id);
    }
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(source.allocation_id));
    CHECK_FALSE(bench.readable(address));
}

TEST_CASE("the least recently used mapping makes room, but none that a graph holds") {
    CacheBench bench;
    const RemoteBuffer held = bench.allocate();
    const RemoteBuffer oldest = bench.allocate();
    const std::byte* const address = must(bench.cache.hold(held));
    (void)must(bench.cache.address(oldest, Slot{}));
    while (bench.cache.size() < ImportCache::kLimit + 1)
        (void)must(bench.cache.address(bench.allocate(), Slot{}));
    CHECK(bench.cache.has(oldest.allocation_id));
    (void)must(bench.cache.address(bench.allocate(), Slot{}));
    CHECK(bench.cache.size() == ImportCache::kLimit + 1);
    CHECK_FALSE(bench.cache.has(oldest.allocation_id));
    CHECK(bench.cache.has(held.allocation_id));
    CHECK(bench.readable(address));
}

TEST_CASE("graphs hold more mappings than are kept otherwise, which go when they can") {
    CacheBench bench;
    std::vector<RemoteBuffer> sources;
    for (size_t i = 0; i < ImportCache::kLimit + 5; ++i) {
        sources.push_back(bench.allocate());
        (void)must(bench.cache.hold(sources.back()));
    }
    CHECK(bench.cache.size() == ImportCache::kLimit + 5);
    for (const RemoteBuffer& source : sources)
        bench.cache.release(source.allocation_id);
    (void)must(bench.cache.address(bench.allocate(), Slot{}));
    CHECK_FALSE(bench.cache.has(sources.front().allocation_id));
    REQUIRE_OK(bench.cache.close_all());
    CHECK(bench.cache.size() == 0);
}

TEST_CASE("what a loan of many allocations leaves is closed down to the limit once its last use is over") {
    CacheBench bench;
    std::vector<RemoteBuffer> sources;
    for (size_t i = 0; i < 3 * ImportCache::kLimit; ++i) {
        sources.push_back(bench.allocate());
        (void)must(bench.cache.borrow(sources.back()));
    }
    CHECK(bench.cache.size() == sources.size());
    CHECK(bench.cache.bytes() >= sources.size() * kBytes);
    CHECK_FALSE(bench.cache.has_to_close());
    for (const RemoteBuffer& source : sources)
        bench.cache.give_back(source.allocation_id, CompletionPoint::at(bench.fence, Edge::kForward, kCopy));
    CHECK(bench.cache.has_to_close());
    CHECK_FALSE(must(bench.cache.sweep()));
    CHECK(bench.cache.size() == sources.size());
    bench.fence.signal_now(Edge::kForward, kCopy);
    bench.waits_for_graph = true;
    CHECK_FALSE(must(bench.cache.sweep()));
    bench.waits_for_graph = false;
    while (must(bench.cache.sweep())) {
    }
    CHECK(bench.cache.size() == ImportCache::kLimit);
    CHECK_FALSE(bench.cache.has_to_close());
    CHECK_FALSE(bench.cache.has(sources.front().allocation_id));
    CHECK(bench.cache.has(sources.back().allocation_id));
}

TEST_CASE("when the exporter has died all go, but what is borrowed or read, and those when they are not any more") {
    CacheBench bench;
    const RemoteBuffer idle = bench.allocate();
    const RemoteBuffer borrowed = bench.allocate();
    const RemoteBuffer read = bench.allocate();
    const RemoteBuffer held = bench.allocate();
    (void)must(bench.cache.address(idle, Slot{}));
    const std::byte* const address = must(bench.cache.borrow(borrowed));
    (void)must(bench.cache.address(read, kCopy));
    (void)must(bench.cache.hold(held));
    bench.cache.revoke_all();
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(idle.allocation_id));
    CHECK(bench.cache.size() == 3);
    CHECK(bench.readable(address));
    bench.fence.poison(Edge::kBackward, kCopy); // of this rank's own edge: its stream has not come to it
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.cache.has(read.allocation_id));
    bench.fence.signal_now(Edge::kBackward, kCopy);
    bench.cache.give_back(borrowed.allocation_id, std::nullopt);
    bench.cache.release(held.allocation_id);
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.cache.size() == 0);
    const RemoteBuffer late = bench.allocate(); // of a message that it had sent
    (void)must(bench.cache.address(late, Slot{}));
    CHECK(bench.cache.has_to_close());
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.cache.size() == 0);
}

TEST_CASE("many that are revoked are all closed, whichever of them are used longer") {
    CacheBench bench;
    constexpr size_t kMany = 500;
    std::vector<RemoteBuffer> sources;
    for (size_t i = 0; i < kMany; ++i) {
        sources.push_back(bench.allocate());
        (void)must(bench.cache.borrow(sources.back()));
        bench.cache.revoke(sources.back().allocation_id);
    }
    for (size_t i = 0; i < kMany; ++i)
        bench.cache.give_back(sources[i].allocation_id,
                              i % 2 == 0 ? std::nullopt
                                         : std::optional(CompletionPoint::at(bench.fence, Edge::kForward, kCopy)));
    for (size_t sweeps = 0; sweeps < kMany; ++sweeps)
        (void)must(bench.cache.sweep());
    CHECK(bench.cache.size() == kMany / 2);
    bench.fence.signal_now(Edge::kForward, kCopy);
    while (must(bench.cache.sweep())) {
    }
    CHECK(bench.cache.size() == 0);
    CHECK(bench.cache.bytes() == 0);
}

TEST_CASE("an allocation takes the place of all that it overlaps, and of no other") {
    CacheBench bench;
    std::vector<RemoteBuffer> sources;
    for (uint64_t i = 0; i < 5; ++i) { // side by side
        sources.push_back(bench.allocate());
        sources.back().allocation_base = (100 + i) * kBytes;
        (void)must(bench.cache.address(sources.back(), Slot{}));
    }
    RemoteBuffer next = bench.allocate();
    next.allocation_base = 101 * kBytes + kBytes / 2;
    next.allocation_bytes = 2 * kBytes;
    CHECK(bench.cache.can_open(next));
    (void)must(bench.cache.borrow(sources[3]));
    CHECK_FALSE(bench.cache.can_open(next));
    CHECK_FALSE(bench.cache.can_open_later(next));
    CHECK_STATUS(bench.cache.open(next), base::Status::kDevice);
    bench.cache.give_back(sources[3].allocation_id, std::nullopt);
    REQUIRE_OK(bench.cache.open(next));
    for (size_t i = 0; i < sources.size(); ++i)
        CHECK(bench.cache.has(sources[i].allocation_id) == (i == 0 || i == 4));
}

TEST_CASE("nothing is closed while that might wait for a graph, and what lies in its place is not opened meanwhile") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate();
    const std::byte* const address = must(bench.cache.address(source, Slot{}));
    RemoteBuffer next = bench.allocate();
    next.allocation_base = source.allocation_base;
    bench.waits_for_graph = true;
    bench.cache.revoke(source.allocation_id);
    REQUIRE_OK(bench.cache.sweep());
    CHECK(bench.readable(address));
    CHECK(bench.cache.can_open(source));
    CHECK_FALSE(bench.cache.can_open(next));
    CHECK_STATUS(bench.cache.open(next), base::Status::kDevice);
    CHECK(bench.cache.can_open(bench.allocate()));
    for (size_t i = 0; i < ImportCache::kLimit; ++i)
        (void)must(bench.cache.address(bench.allocate(), Slot{}));
    CHECK(bench.cache.size() == ImportCache::kLimit + 1);
    bench.waits_for_graph = false;
    CHECK(bench.cache.can_open(next));
    REQUIRE_OK(bench.cache.open(next));
    CHECK_FALSE(bench.cache.has(source.allocation_id));
}

TEST_CASE("a mapping that copies still read is not closed for another in its place") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate();
    (void)must(bench.cache.address(source, kCopy));
    RemoteBuffer next = bench.allocate();
    next.allocation_base = source.allocation_base;
    CHECK_FALSE(bench.cache.can_open(next));
    bench.fence.signal_now(Edge::kBackward, kCopy);
    CHECK(bench.cache.can_open(next));
    REQUIRE_OK(bench.cache.open(next));
}

TEST_CASE("an allocation where another was ends that one's mapping, held or not, and its release means nothing") {
    CacheBench bench;
    const RemoteBuffer source = bench.allocate();
    (void)must(bench.cache.hold(source));
    REQUIRE_OK(bench.exporter->free(reinterpret_cast<void*>(source.allocation_base)));
    RemoteBuffer next = bench.allocate();
    next.allocation_base = source.allocation_base; // wherever the emulated device has put it
    (void)must(bench.cache.address(next, Slot{}));
    CHECK_FALSE(bench.cache.has(source.allocation_id));
    bench.cache.release(source.allocation_id);
    CHECK(bench.cache.has(next.allocation_id));
    CHECK(bench.cache.size() == 1);
}

TEST_CASE("what is in pieces may overlap: neither is in the other's way, and each goes by itself") {
    CacheBench bench;
    RemoteBuffer first = bench.allocate();
    RemoteBuffer second = bench.allocate();
    first.in_pieces = second.in_pieces = true;
    second.allocation_base = first.allocation_base + kBytes / 2;
    const std::byte* const one = must(bench.cache.borrow(first));
    CHECK(bench.cache.can_open(second));
    CHECK(bench.cache.can_open_later(second));
    const std::byte* const other = must(bench.cache.borrow(second));
    CHECK(one != other);
    bench.cache.revoke(first.allocation_id);
    bench.cache.give_back(first.allocation_id, std::nullopt);
    REQUIRE_OK(bench.cache.sweep());
    CHECK_FALSE(bench.cache.has(first.allocation_id));
    CHECK(bench.cache.has(second.allocation_id));
    CHECK(bench.readable(other));
    bench.cache.give_back(second.allocation_id, std::nullopt);

    RemoteBuffer whole = bench.allocate();
    whole.allocation_base = second.allocation_base; // says nothing of what is in pieces, either
    REQUIRE_OK(bench.cache.open(whole));
    CHECK(bench.cache.has(second.allocation_id));
}
