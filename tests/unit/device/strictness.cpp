// What the device contract leaves undefined, and GPUs may tolerate, is refused by emulated devices.
#include "emulated.hpp"

#include <new>
#include <vector>

using namespace gpurun;
using base::Status;
using test::must;
using test::open_emulated;

TEST_CASE("a stream copy from or to pageable memory is refused") {
    const auto device = open_emulated();
    void* memory = must(device->allocate(4096));
    std::vector<std::byte> pageable(4096);
    CHECK_STATUS(device->copy(memory, pageable.data(), 4096, {}), Status::kBuffer);
    CHECK_STATUS(device->copy(pageable.data(), memory, 4096, {}), Status::kBuffer);
    CHECK_STATUS(device->fill(pageable.data(), 0, 4096, {}), Status::kBuffer);
}

TEST_CASE("a stream copy from host to host is refused") {
    const auto device = open_emulated();
    auto* pinned = static_cast<std::byte*>(must(device->allocate_pinned(4096)));
    CHECK_STATUS(device->copy(pinned, pinned + 2048, 2048, {}), Status::kBuffer);
}

TEST_CASE("a stream copy past the end of memory, or of memory that was freed, is refused") {
    const auto device = open_emulated();
    void* memory = must(device->allocate(4096));
    void* pinned = must(device->allocate_pinned(8192));
    CHECK_STATUS(device->copy(memory, pinned, 4097, {}), Status::kBuffer);
    CHECK_STATUS(device->fill(memory, 0, 4097, {}), Status::kBuffer);
    REQUIRE_OK(device->free(memory));
    CHECK_STATUS(device->copy(memory, pinned, 1, {}), Status::kBuffer);
    void* more = must(device->allocate(16384));
    CHECK_STATUS(device->copy(more, pinned, 8193, {}), Status::kBuffer);
}

TEST_CASE("a counter outside of registered memory is refused") {
    const auto device = open_emulated();
    device::Counter counter{0};
    CHECK_STATUS(device->write_counter({}, &counter, 1), Status::kBuffer);
    CHECK_STATUS(device->await_counter({}, &counter, 0), Status::kBuffer);
}

TEST_CASE("host memory that is not page-aligned, or registered already, is refused") {
    const auto device = open_emulated();
    alignas(4096) static std::byte memory[3 * 4096];
    CHECK_STATUS(device->register_host(memory + 64, 4096), Status::kArgument);
    CHECK_STATUS(device->register_host(memory, 0), Status::kArgument);
    REQUIRE_OK(device->register_host(memory + 4096, 4096));
    CHECK_STATUS(device->register_host(memory, 2 * 4096), Status::kArgument);
    CHECK_STATUS(device->register_host(memory + 4096, 4096), Status::kArgument);
    CHECK_STATUS(device->unregister_host(memory), Status::kArgument);
    REQUIRE_OK(device->unregister_host(memory + 4096));
    CHECK_STATUS(device->unregister_host(memory + 4096), Status::kArgument);
}

TEST_CASE("a function that a stream runs cannot use that stream") {
    const auto device = open_emulated();
    struct Call {
        device::Device* device;
        device::Stream stream;
        int enqueued = -1;
        int waited = -1;
    } call{device.get(), must(device->create_stream())};
    REQUIRE_OK(device->call_host(
        call.stream,
        [](void* argument) {
            auto& inside = *static_cast<Call*>(argument);
            inside.enqueued = test::status_of(inside.device->call_host(
                inside.stream, [](void*) {}, nullptr));
            inside.waited = test::status_of(inside.device->synchronize(inside.stream));
        },
        &call));
    REQUIRE_OK(device->synchronize(call.stream));
    CHECK(call.enqueued == static_cast<int>(Status::kUnsupported));
    CHECK(call.waited == static_cast<int>(Status::kUnsupported));
}

TEST_CASE("only shared events are exported, and stream-ordered memory is not") {
    const auto device = open_emulated();
    CHECK_STATUS(device->export_event(must(device->create_event())), Status::kEvent);
    void* ordered = must(device->allocate_ordered(4096, {}));
    CHECK_STATUS(device->export_memory(must(device->describe(ordered, 4096))), Status::kBuffer);
}

TEST_CASE("bytes that are no handle are refused") {
    const auto device = open_emulated();
    CHECK_STATUS(device->import_memory(1, device::MemoryHandle{}), Status::kArgument);
    CHECK_STATUS(device->import_event(1, device::EventHandle{}), Status::kEvent);
}
