// What emulated memory costs and where it goes.
#include "emulated.hpp"

#include "device/capability/ordered_memory.hpp"

#include <cstring>
#include <sys/stat.h>
#include <vector>

using namespace gpurun;
using base::Status;
using test::must;
using test::open_emulated;

namespace {

size_t bytes_in_use(const device::Device& device) {
    struct stat status {};
    REQUIRE(::fstat(device.shareable_fd(), &status) == 0);
    return static_cast<size_t>(status.st_blocks) * 512;
}

} // namespace

TEST_CASE("memory costs what is touched, and goes back to the system when it is freed") {
    const auto device = open_emulated();
    const size_t empty = bytes_in_use(*device);
    void* memory = must(device->allocate(size_t{16} << 20));
    CHECK(bytes_in_use(*device) == empty);
    std::memset(memory, 1, size_t{16} << 20);
    CHECK(bytes_in_use(*device) >= empty + (size_t{16} << 20));
    REQUIRE_OK(device->free(memory));
    CHECK(bytes_in_use(*device) == empty);
}

TEST_CASE("all of the device can be allocated, and again after it was freed") {
    const auto device = open_emulated();
    for (int round = 0; round < 3; ++round) {
        void* all = must(device->allocate(device->info().memory_bytes));
        CHECK_STATUS(device->allocate(1), Status::kMemory);
        CHECK_STATUS(device->ordered_memory()->allocate_ordered(1, {}), Status::kMemory); // both kinds share the device
        REQUIRE_OK(device->free(all));
    }
}

TEST_CASE("stream-ordered memory that the stream frees first counts as free") {
    const auto device = open_emulated();
    const device::Stream stream = must(device->create_stream());
    for (int round = 0; round < 20; ++round) {
        void* most = must(device->ordered_memory()->allocate_ordered(device->info().memory_bytes - 4096, stream));
        REQUIRE_OK(device->fill(most, round, 4096, stream));
        REQUIRE_OK(device->ordered_memory()->free_ordered(most, stream));
    }
}

TEST_CASE("an address of device memory is known for ever, allocated or not") {
    const auto device = open_emulated();
    std::vector<std::byte*> freed;
    for (size_t i = 0; i < 100; ++i)
        freed.push_back(static_cast<std::byte*>(must(device->allocate(5000))));
    for (std::byte* pointer : freed)
        REQUIRE_OK(device->free(pointer));
    for (std::byte* pointer : freed) {
        CHECK_STATUS(device->describe(pointer, 1), Status::kBuffer);
        CHECK_STATUS(device->describe(pointer + 4999, 1), Status::kBuffer);
    }
}
