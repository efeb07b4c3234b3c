// Allocating, freeing, and what an address is.
#include "subject.hpp"

#include <set>

namespace gpurun::conformance::memory {

TEST_SUITE_BEGIN("memory");

TEST_CASE("every address of an allocation describes all of it") {
    constexpr size_t kBytes = 100'000;
    const Memory memory(kBytes);
    const device::Buffer whole = memory.describe();
    CHECK(whole.placement == device::Placement::kDevice);
    CHECK(whole.exportable);
    CHECK(whole.base == memory.get());
    CHECK(whole.size >= kBytes);
    CHECK(whole.id != 0);
    for (const size_t offset : {size_t{1}, size_t{4096}, kBytes - 1}) {
        const device::Buffer part = must(subject().describe(memory.get() + offset, kBytes - offset));
        CHECK(part.placement == whole.placement);
        CHECK(part.base == whole.base);
        CHECK(part.size == whole.size);
        CHECK(part.id == whole.id);
    }
}

TEST_CASE("allocations are aligned to 256 bytes and do not overlap") {
    std::vector<std::unique_ptr<Memory>> all;
    std::set<uintptr_t> starts;
    for (size_t bytes : {1, 3, 255, 256, 257, 5000, 1}) {
        all.push_back(std::make_unique<Memory>(bytes));
        const auto address = reinterpret_cast<uintptr_t>(all.back()->get());
        CHECK(address % 256 == 0);
        CHECK(starts.insert(address).second);
    }
}

TEST_CASE("an id never names two allocations") {
    std::set<uint64_t> ids;
    for (int i = 0; i < 100; ++i) {
        const Memory memory(4096); // most likely at the same address each time
        CHECK(ids.insert(memory.describe().id).second);
    }
    const Pinned pinned(4096);
    CHECK(ids.insert(must(subject().describe(pinned.get(), 1)).id).second);
}

TEST_CASE("a range that reaches past its allocation is refused") {
    const Memory memory(4096);
    const size_t size = memory.describe().size;
    CHECK_STATUS(subject().describe(memory.get(), size), Status::kOk);
    CHECK_STATUS(subject().describe(memory.get(), size + 1), Status::kBuffer);
    CHECK_STATUS(subject().describe(memory.get() + 1, size), Status::kBuffer);
    CHECK_STATUS(subject().describe(memory.get(), SIZE_MAX), Status::kBuffer);
}

TEST_CASE("memory that was freed is refused") {
    void* memory = must(subject().allocate(8 << 20));
    REQUIRE_OK(subject().describe(memory, 8 << 20));
    REQUIRE_OK(subject().free(memory));
    CHECK_STATUS(subject().describe(memory, 1), Status::kBuffer);
    CHECK_STATUS(subject().describe(memory, 8 << 20), Status::kBuffer);
}

TEST_CASE("freeing what is no start of an allocation is refused and frees nothing") {
    const Memory memory(4096);
    int local = 0;
    CHECK_STATUS(subject().free(memory.get() + 256), Status::kBuffer);
    CHECK_STATUS(subject().free(&local), Status::kBuffer);
    CHECK_STATUS(subject().describe(memory.get(), 4096), Status::kOk);
    void* freed = must(subject().allocate(4096));
    REQUIRE_OK(subject().free(freed));
    CHECK_STATUS(subject().free(freed), Status::kBuffer);
}

TEST_CASE("more memory than the device has is an error, and the device goes on") {
    CHECK_STATUS(subject().allocate(subject().info().memory_bytes + (1 << 20)), Status::kMemory);
    const Memory memory(4096);
    write(memory.get(), pattern(4096, 1));
    CHECK(read(memory.get(), 4096) == pattern(4096, 1));
}

TEST_CASE("pinned memory is host memory that streams copy from and to") {
    const Pinned pinned(10'000);
    const device::Buffer buffer = must(subject().describe(pinned.get() + 5, 100));
    CHECK(buffer.placement == device::Placement::kPinned);
    CHECK(buffer.exportable);
    CHECK(buffer.base == pinned.get());
    CHECK(buffer.size >= 10'000);
    int local = 0;
    CHECK_STATUS(subject().free_pinned(&local), Status::kBuffer);
}

TEST_CASE("registered host memory is pinned until it is unregistered") {
    constexpr size_t kBytes = 4 * 4096;
    alignas(4096) static std::byte host[kBytes];
    CHECK(must(subject().describe(host, kBytes)).placement == device::Placement::kPageable);
    REQUIRE_OK(subject().register_host(host, kBytes));
    CHECK(must(subject().describe(host + 10, kBytes - 10)).placement == device::Placement::kPinned);
    const Memory memory(kBytes);
    const Stream stream;
    REQUIRE_OK(subject().fill(memory.get(), 0x77, kBytes, stream));
    REQUIRE_OK(subject().copy(host, memory.get(), kBytes, stream));
    stream.synchronize();
    CHECK(host[0] == std::byte{0x77});
    CHECK(host[kBytes - 1] == std::byte{0x77});
    REQUIRE_OK(subject().unregister_host(host));
    CHECK(must(subject().describe(host, kBytes)).placement == device::Placement::kPageable);
}

TEST_CASE("host memory is pinned only where one registration has all of it") {
    constexpr size_t kPage = 4096;
    alignas(kPage) static std::byte host[4 * kPage];
    const auto placement = [](size_t offset, size_t bytes) {
        return must(subject().describe(host + offset, bytes)).placement;
    };
    REQUIRE_OK(subject().register_host(host + kPage, kPage));
    CHECK(placement(kPage, kPage) == device::Placement::kPinned);
    CHECK(placement(kPage, kPage + 1) == device::Placement::kPageable); // ends where nothing is registered
    CHECK(placement(kPage - 1, kPage) == device::Placement::kPageable); // begins there
    CHECK(placement(0, 4 * kPage) == device::Placement::kPageable);     // has some in its middle
    REQUIRE_OK(subject().register_host(host + 2 * kPage, kPage));
    CHECK(placement(kPage + 9, kPage) == device::Placement::kPageable); // in two
    CHECK(placement(2 * kPage, kPage) == device::Placement::kPinned);
    REQUIRE_OK(subject().unregister_host(host + 2 * kPage));
    REQUIRE_OK(subject().unregister_host(host + kPage));
}

TEST_CASE("a range that is only in part in a pinned allocation is refused") {
    constexpr size_t kBytes = 100, kPage = 4096;
    const Pinned pinned(kBytes);
    CHECK(must(subject().describe(pinned.get() + 1, kBytes - 1)).size == kBytes);
    CHECK_STATUS(subject().describe(pinned.get(), kBytes + 1), Status::kBuffer);
    CHECK_STATUS(subject().describe(pinned.get(), 2 * kPage), Status::kBuffer);
    CHECK_STATUS(subject().describe(pinned.get() + kBytes - 1, 2), Status::kBuffer);
    CHECK_STATUS(subject().describe(pinned.get() - kPage, kPage + 1), Status::kBuffer);
    CHECK_STATUS(subject().describe(pinned.get() - kPage, 4 * kPage), Status::kBuffer);
}

TEST_CASE("memory that is freed for later stays until it is given back, but is no longer known, and is freed once") {
    void* const device_memory = must(subject().allocate(4096));
    void* const pinned = must(subject().allocate_pinned(4096));
    const Stream stream;
    for (void* const each : {device_memory, pinned}) {
        REQUIRE_OK(subject().free_later(each));
        CHECK_STATUS(subject().describe(each, 4096), Status::kBuffer);
        CHECK_STATUS(subject().describe(static_cast<std::byte*>(each) + 8, 1), Status::kBuffer);
        CHECK_STATUS(subject().free_later(each), Status::kBuffer);
        CHECK_STATUS(subject().free_later(static_cast<std::byte*>(each) + 8), Status::kBuffer);
    }
    REQUIRE_OK(subject().copy(pinned, device_memory, 4096, stream));
    stream.synchronize();
    subject().give_back();
    for (void* const each : {device_memory, pinned})
        CHECK_STATUS(subject().free_later(each), Status::kBuffer);
    subject().give_back();
}

TEST_CASE("ordinary host memory is pageable") {
    const Bytes heap(100);
    int local = 0;
    static int global = 0;
    const void* const addresses[] = {heap.data(), &local, &global};
    for (const void* address : addresses) {
        const device::Buffer buffer = must(subject().describe(address, 4));
        CHECK(buffer.placement == device::Placement::kPageable);
        CHECK(buffer.base == nullptr);
        CHECK_FALSE(buffer.exportable);
    }
}

} // namespace gpurun::conformance::memory
