// Memory that is allocated and freed in the order of a stream.
#include "subject.hpp"

namespace gpurun::conformance::ordered_memory {

TEST_SUITE_BEGIN("ordered memory");

TEST_CASE("stream-ordered memory is device memory that cannot be exported") {
    const Stream stream;
    void* memory = must(subject().ordered_memory()->allocate_ordered(10'000, stream));
    const device::Buffer buffer = must(subject().describe(memory, 10'000));
    CHECK(buffer.placement == device::Placement::kDevice);
    CHECK_FALSE(buffer.exportable);
    CHECK(buffer.base == memory);
    const Pinned pinned(10'000);
    REQUIRE_OK(subject().fill(memory, 0x5a, 10'000, stream));
    REQUIRE_OK(subject().copy(pinned.get(), memory, 10'000, stream));
    REQUIRE_OK(subject().ordered_memory()->free_ordered(memory, stream));
    stream.synchronize();
    CHECK(pinned.get()[0] == std::byte{0x5a});
    CHECK(pinned.get()[9'999] == std::byte{0x5a});
}

TEST_CASE("stream-ordered memory stays usable by what its stream does before the free") {
    const Stream stream;
    const Pinned pinned(4096);
    const size_t gate = new_counter();
    void* memory = must(subject().ordered_memory()->allocate_ordered(4096, stream));
    hold(stream, gate);
    REQUIRE_OK(subject().fill(memory, 0x11, 4096, stream));
    REQUIRE_OK(subject().copy(pinned.get(), memory, 4096, stream));
    REQUIRE_OK(subject().ordered_memory()->free_ordered(memory, stream));
    // Another stream's allocation must not get the place while it is still in use.
    const Stream other;
    void* next = must(subject().ordered_memory()->allocate_ordered(4096, other));
    REQUIRE_OK(subject().fill(next, 0x22, 4096, other));
    store(gate, 1);
    stream.synchronize();
    other.synchronize();
    CHECK(pinned.get()[0] == std::byte{0x11});
    CHECK(read(next, 1) == Bytes{std::byte{0x22}});
    REQUIRE_OK(subject().ordered_memory()->free_ordered(next, other));
    other.synchronize();
}

TEST_CASE("freeing in stream order what was not allocated so is refused") {
    const Stream stream;
    const Memory memory(4096);
    CHECK_STATUS(subject().ordered_memory()->free_ordered(memory.get(), stream), Status::kBuffer);
    CHECK_STATUS(subject().describe(memory.get(), 4096), Status::kOk);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::ordered_memory
