// Handles of this process's allocations, and those that there are none of.
#include "transfer/memory/export_cache.hpp"
#include "device/open.hpp"
#include "support/unit.hpp"

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

TEST_CASE("what the device refuses to export has no handle, and nobody has been given it") {
    const auto device = open_emulated();
    transfer::ExportCache cache(*device, 2);
    device::Buffer buffer = must(device->describe(must(device->allocate(100)), 100));
    buffer.id += 1000; // of no allocation
    CHECK_FALSE(cache.handle(buffer, 1).has_value());
    CHECK_FALSE(cache.handle(buffer, 0).has_value());
    CHECK(cache.forget(buffer.id).empty());
}

TEST_SUITE_END();
