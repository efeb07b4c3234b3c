// Memory of one process, mapped by another.
#include "other_process.hpp"

#include <algorithm>
#include <unistd.h>

namespace gpurun::conformance::shared_memory {

TEST_SUITE_BEGIN("shared memory");

namespace {

constexpr size_t kBytes = 300'000;

} // namespace

TEST_CASE("a peer on the same device has the same identity, on another device another") {
    for (const std::string& selector : reachable_selectors()) {
        const OtherProcess other(selector);
        CHECK((other.identity() == subject().info().identity) == (selector == reachable_selectors().front()));
        CHECK_STATUS(subject().can_reach(other.identity()), Status::kOk);
    }
}

TEST_CASE("what a peer wrote is read through the mapping, and the other way round") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const uint32_t memory = other.allocate(kBytes);
        other.fill(memory, 0x42, kBytes);
        other.synchronize();
        const Import import(other.peer(), other.export_memory(memory));
        CHECK(read(import.get(), kBytes) == Bytes(kBytes, std::byte{0x42}));
        write(import.get() + 1000, Bytes(2000, std::byte{0x43}));
        CHECK(other.count_bytes(memory, 0x43, kBytes) == 2000);
        CHECK(other.count_bytes(memory, 0x42, kBytes) == kBytes - 2000);
    }
}

TEST_CASE("a handle names the whole allocation, wherever the exporter's pointer points") {
    OtherProcess other(reachable_selectors().front());
    const Memory memory(kBytes);
    write(memory.get(), pattern(kBytes, 3));
    const device::Buffer inside = must(subject().describe(memory.get() + 5000, 100));
    const uint32_t imported = other.import_memory(must(subject().export_memory(inside)));
    const Bytes content = pattern(kBytes, 3);
    const auto zeros = static_cast<size_t>(std::count(content.begin(), content.end(), std::byte{0}));
    CHECK(other.count_bytes(imported, 0, kBytes) == zeros);
    other.close(imported);
}

TEST_CASE("allocations of one peer are mapped side by side, and each can be mapped again") {
    OtherProcess other(reachable_selectors().back());
    const uint32_t first = other.allocate(kBytes);
    const uint32_t second = other.allocate(kBytes);
    other.fill(first, 1, kBytes);
    other.fill(second, 2, kBytes);
    other.synchronize();
    for (int round = 0; round < 3; ++round) {
        const Import one(other.peer(), other.export_memory(first));
        const Import two(other.peer(), other.export_memory(second));
        CHECK(read(one.get(), kBytes) == Bytes(kBytes, std::byte{1}));
        CHECK(read(two.get(), kBytes) == Bytes(kBytes, std::byte{2}));
    }
}

TEST_CASE("a peer's pinned memory is pinned memory here, as long as it is mapped") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const Memory own(kBytes);
        for (int round = 0; round < 3; ++round) {
            const uint32_t memory = other.allocate_pinned(kBytes);
            const device::MemoryHandle handle = other.export_memory(memory);
            {
                const Import import(other.peer(), handle);
                const device::Buffer buffer = must(subject().describe(import.get() + 5, kBytes - 5));
                CHECK(buffer.placement == device::Placement::kPinned);
                CHECK_FALSE(buffer.exportable);
                import.get()[0] = std::byte{7}; // by the CPU, and the rest by a stream
                const Stream stream;
                REQUIRE_OK(subject().fill(own.get(), 0x42, kBytes, stream));
                REQUIRE_OK(subject().copy(import.get() + 1, own.get() + 1, kBytes - 1, stream));
                stream.synchronize();
                other.free_pinned(memory); // what is mapped stays
                CHECK(import.get()[0] == std::byte{7});
                CHECK(static_cast<size_t>(std::count(import.get(), import.get() + kBytes, std::byte{0x42})) ==
                      kBytes - 1);
                REQUIRE_OK(subject().copy(own.get(), import.get(), kBytes, stream));
                stream.synchronize();
            }
            CHECK(read(own.get(), 1) == Bytes(1, std::byte{7}));
            CHECK_STATUS(subject().import_memory(other.peer(), handle), Status::kBuffer); // it has been freed
        }
        const Pinned pinned(kBytes);
        pinned.get()[kBytes - 1] = std::byte{9};
        const device::Buffer mine = must(subject().describe(pinned.get() + 100, 1));
        const uint32_t there = other.import_memory(must(subject().export_memory(mine)));
        CHECK(other.count_bytes(there, 0, kBytes) == kBytes - 1);
        other.close(there);
    }
}

TEST_CASE("device memory is copied to a peer's by streams, in order") {
    OtherProcess other(reachable_selectors().back());
    const uint32_t memory = other.allocate(kBytes);
    const Import import(other.peer(), other.export_memory(memory));
    const Memory own(kBytes);
    const Stream stream;
    for (int round = 1; round <= 5; ++round) {
        REQUIRE_OK(subject().fill(own.get(), round, kBytes, stream));
        REQUIRE_OK(subject().copy(import.get(), own.get(), kBytes, stream));
        stream.synchronize();
        CHECK(other.count_bytes(memory, round, kBytes) == kBytes);
    }
}

TEST_CASE("a mapping outlives its exporter") {
    for (const std::string& selector : reachable_selectors()) {
        CAPTURE(selector);
        OtherProcess other(selector);
        const uint32_t memory = other.allocate(kBytes);
        other.fill(memory, 0x17, kBytes);
        other.synchronize();
        const Import import(other.peer(), other.export_memory(memory));
        other.kill_it();
        CHECK(read(import.get(), kBytes) == Bytes(kBytes, std::byte{0x17}));
        write(import.get(), Bytes(kBytes, std::byte{0x18}));
        CHECK(read(import.get(), kBytes) == Bytes(kBytes, std::byte{0x18}));
        subject().release_peer(other.peer());
    }
}

TEST_CASE("the number of a peer that is forgotten can be another's") {
    const std::string selector = reachable_selectors().front();
    OtherProcess first(selector);
    const int number = first.peer();
    subject().forget_peer(number);
    subject().forget_peer(number); // nobody
    const uint32_t of_first = first.allocate(kBytes);
    CHECK_FALSE(subject().import_memory(number, first.export_memory(of_first)));
    OtherProcess second(selector, number);
    const uint32_t memory = second.allocate(kBytes);
    second.fill(memory, 0x21, kBytes);
    second.synchronize();
    const Import import(number, second.export_memory(memory));
    CHECK(read(import.get(), kBytes) == Bytes(kBytes, std::byte{0x21}));
}

TEST_CASE("memory that is freed while a peer has it mapped hurts nobody") {
    OtherProcess other(reachable_selectors().front());
    const uint32_t memory = other.allocate(kBytes);
    const Import import(other.peer(), other.export_memory(memory));
    other.free(memory);
    (void)read(import.get(), kBytes); // whatever is there now
    const uint32_t next = other.allocate(kBytes);
    other.fill(next, 9, kBytes);
    CHECK(other.count_bytes(next, 9, kBytes) == kBytes);
}

TEST_CASE("a process cannot import from itself, nor from a peer that was never added") {
    const Memory memory(kBytes);
    const device::MemoryHandle handle = must(subject().export_memory(memory.describe()));
    CHECK_FALSE(static_cast<bool>(subject().import_memory(999'999, handle)));
}

TEST_CASE("closing what was not imported, or was closed before, is refused") {
    OtherProcess other(reachable_selectors().front());
    const Memory own(4096);
    int local = 0;
    CHECK_STATUS(subject().close_memory(&local), Status::kBuffer);
    CHECK_STATUS(subject().close_memory(own.get()), Status::kBuffer);
    void* imported = must(subject().import_memory(other.peer(), other.export_memory(other.allocate(4096))));
    REQUIRE_OK(subject().close_memory(imported));
    CHECK_STATUS(subject().close_memory(imported), Status::kBuffer);
}

TEST_CASE("a device that cannot be reached says why, and streams do not copy from there") {
    if (unreachable_selector().empty())
        return;
    OtherProcess other(unreachable_selector());
    const auto reached = subject().can_reach(other.identity());
    CHECK_STATUS(reached, Status::kDevice);
    CHECK_FALSE(test::detail_of(reached).empty());
    const Import import(other.peer(), other.export_memory(other.allocate(kBytes)));
    const Memory own(kBytes);
    const Stream stream;
    CHECK_STATUS(subject().copy(own.get(), import.get(), kBytes, stream), Status::kDevice);
    CHECK_STATUS(subject().copy(import.get(), own.get(), kBytes, stream), Status::kDevice);
    CHECK_STATUS(subject().fill(import.get(), 1, kBytes, stream), Status::kDevice);
}

TEST_CASE("emulated devices refuse what drivers leave undefined between processes") {
    if (!is_emulated())
        return;
    OtherProcess other(reachable_selectors().front());
    OtherProcess third(reachable_selectors().front());
    const uint32_t memory = other.allocate(kBytes);
    const device::MemoryHandle handle = other.export_memory(memory);
    CHECK_STATUS(subject().import_memory(third.peer(), handle), Status::kBuffer); // another peer's handle
    CHECK_STATUS(subject().import_memory(other.peer(), {}), Status::kBuffer);
    {
        const Import import(other.peer(), handle);
        CHECK_STATUS(subject().import_memory(other.peer(), handle), Status::kBuffer); // twice
        CHECK_STATUS(subject().describe(import.get(), 1), Status::kBuffer); // not this process's device memory
        const Memory own(2 * kBytes);
        CHECK_STATUS(subject().copy(own.get(), import.get(), 2 * kBytes, {}), Status::kBuffer); // past its end
        other.free(memory);
        // The place has a new allocation: the mapping of the old one is in the way.
        const device::MemoryHandle newer = other.export_memory(other.allocate(kBytes));
        CHECK_STATUS(subject().import_memory(other.peer(), newer), Status::kBuffer);
    }
    CHECK_STATUS(subject().import_memory(other.peer(), handle), Status::kBuffer); // freed
    const uint32_t short_lived = other.allocate(kBytes);
    const device::MemoryHandle stale = other.export_memory(short_lived);
    other.free(short_lived);
    CHECK_STATUS(subject().import_memory(other.peer(), stale), Status::kBuffer); // freed, and nothing in its place
}

TEST_CASE("a peer is added once") {
    if (!is_emulated()) // has a descriptor
        return;
    OtherProcess other(reachable_selectors().front());
    CHECK_STATUS(subject().add_peer(other.peer(), other.identity(), ::dup(subject().shareable_fd())),
                 Status::kArgument);
}

} // namespace gpurun::conformance::shared_memory
