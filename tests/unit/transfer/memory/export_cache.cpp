// Handles of this process's allocations, and those that there are none of.
#include "transfer/memory/export_cache.hpp"
#include "device/open.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <cstring>

using namespace gpurun;
using gpurun::test::must;

namespace {

std::unique_ptr<device::Device> open_emulated() {
    device::Options options;
    options.selector = "emulated:0/1";
    options.emulated_memory_bytes = size_t{1} << 20;
    return must(device::open_device(options));
}

device::Buffer new_span(device::Device& device) {
    device::Buffer made = must(device.describe(must(device.allocate(100)), 100));
    made.in_pieces = true;
    return made;
}

} // namespace

TEST_SUITE_BEGIN("export cache");

TEST_CASE("an allocation has one handle, and whoever was given it is told when it is freed") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 3);
    const device::Buffer buffer = must(device->describe(must(device->allocate(100)), 100));
    const auto first = cache.handle(buffer, 1);
    const auto second = cache.handle(buffer, 2);
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    CHECK(std::memcmp(first->bytes.data(), second->bytes.data(), first->bytes.size()) == 0);
    CHECK(cache.forget(buffer.id) == std::vector<bool>{false, true, true});
    CHECK(cache.forget(buffer.id).empty());
}

TEST_CASE("a peer that is asked to unmap has an allocation until it answers, and again once it is given its handle") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 3);
    const device::Buffer buffer = must(device->describe(must(device->allocate(100)), 100));
    CHECK_FALSE(cache.may_have(buffer.id, 1));
    REQUIRE(cache.handle(buffer, 1));
    CHECK(cache.must_be_asked(buffer.id, 1));
    CHECK_FALSE(cache.may_have(buffer.id, 2));
    const uint64_t first = cache.ask(buffer.id, 1);
    CHECK(cache.may_have(buffer.id, 1));
    CHECK_FALSE(cache.must_be_asked(buffer.id, 1));
    REQUIRE(cache.handle(buffer, 1));
    cache.answered(buffer.id, 1, first); // which the peer wrote before it got the handle
    CHECK(cache.must_be_asked(buffer.id, 1));
    const uint64_t second = cache.ask(buffer.id, 1);
    cache.answered(buffer.id, 1, first);
    CHECK(cache.may_have(buffer.id, 1));
    cache.answered(buffer.id, 1, second);
    CHECK_FALSE(cache.may_have(buffer.id, 1));
    CHECK(cache.forget(buffer.id) == std::vector<bool>{false, false, false});
}

TEST_CASE("of an allocation that the full cache has forgotten, all may have it mapped") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 2);
    const device::Buffer buffer = must(device->describe(must(device->allocate(100)), 100));
    REQUIRE(cache.handle(buffer, 1));
    for (uint64_t other = 1; other <= transfer::ExportCache::kLimit; ++other) {
        device::Buffer refused = buffer;
        refused.id += other;
        CHECK_FALSE(cache.handle(refused, 1));
    }
    CHECK(cache.may_have_forgotten(buffer));
    REQUIRE(cache.handle(buffer, 0));
    CHECK_FALSE(cache.may_have_forgotten(buffer));
    CHECK(cache.must_be_asked(buffer.id, 1));
}

TEST_CASE("what the device refuses to export has no handle, and nobody has been given it") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 2);
    device::Buffer buffer = must(device->describe(must(device->allocate(100)), 100));
    buffer.id += 1000; // of no allocation
    CHECK_FALSE(cache.handle(buffer, 1).has_value());
    CHECK_FALSE(cache.handle(buffer, 0).has_value());
    CHECK(cache.forget(buffer.id).empty());
}

TEST_CASE("of memory in pieces, all that has some of them is known, however much is exported besides") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 2);
    const device::Buffer one = new_span(*device), other = new_span(*device), not_exported = new_span(*device);
    REQUIRE(cache.handle(one, 1));
    REQUIRE(cache.handle(other, 0));
    const auto ids = [&](const device::Buffer& first, const device::Buffer& last) { // of a piece that reaches into both
        device::Buffer piece = first;
        piece.size = static_cast<size_t>(static_cast<std::byte*>(last.base) - static_cast<std::byte*>(first.base)) + 1;
        auto found = cache.ids_of(piece);
        std::sort(found.begin(), found.end());
        return found;
    };
    REQUIRE(one.base < other.base);
    REQUIRE(other.base < not_exported.base);
    CHECK(ids(one, one) == std::vector<uint64_t>{one.id});
    CHECK(ids(one, other) == std::vector<uint64_t>{one.id, other.id});
    CHECK(ids(not_exported, not_exported).empty());

    device::Buffer whole = must(device->describe(must(device->allocate(100)), 100));
    CHECK(cache.ids_of(whole) == std::vector<uint64_t>{whole.id});
    for (uint64_t i = 0; i <= transfer::ExportCache::kLimit; ++i, whole.id += 1000)
        (void)cache.handle(whole, 1);
    CHECK(ids(one, other) == std::vector<uint64_t>{one.id, other.id});
    CHECK(cache.must_be_asked(one.id, 1));
    CHECK_FALSE(cache.may_have_forgotten(one));
}

TEST_CASE("pieces that others have replaced are forgotten, once these are exported and no peer has them") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 2);
    const device::Buffer first = new_span(*device);
    REQUIRE(cache.handle(first, 1));
    REQUIRE_OK(device->free(first.base));
    CHECK(cache.ids_of(first) == std::vector<uint64_t>{first.id}); // as far as it knows
    const device::Buffer second = new_span(*device);
    REQUIRE(second.base == first.base);
    REQUIRE(cache.handle(second, 1));
    CHECK(cache.ids_of(second).size() == 2);
    CHECK(cache.must_be_asked(first.id, 1));
    cache.answered(first.id, 1, cache.ask(first.id, 1));
    cache.answered(second.id, 1, cache.ask(second.id, 1));
    REQUIRE_OK(device->free(second.base));
    const device::Buffer third = new_span(*device);
    REQUIRE(third.base == first.base);
    REQUIRE(cache.handle(third, 0));
    CHECK(cache.ids_of(third) == std::vector<uint64_t>{third.id});
}

TEST_SUITE_END();
