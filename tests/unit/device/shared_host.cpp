// Pinned memory that other processes map. Here one object exports and another one imports.
#include "device/shared_host.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <cstring>
#include <sys/resource.h>
#include <vector>

using gpurun::base::Error;
using gpurun::base::Result;
using gpurun::base::Status;
using gpurun::device::MemoryHandle;
using gpurun::device::SharedHostMemory;
using gpurun::test::must;

namespace {

// The process may have so many descriptors, as long as this lives.
class DescriptorLimit {
  public:
    explicit DescriptorLimit(rlim_t limit) {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const rlimit lower{limit, before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
    }
    ~DescriptorLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

constexpr auto any = [](void*, size_t) { return Result<void>(); };

} // namespace

TEST_SUITE_BEGIN("shared host memory");

TEST_CASE("what one has written, the other reads, wherever it is mapped and after it was freed") {
    SharedHostMemory exporter, importer;
    const SharedHostMemory::Allocation own = must(exporter.allocate(5000));
    CHECK(own.bytes == 8192);
    std::memset(own.pointer, 7, own.bytes);
    const MemoryHandle handle = must(exporter.export_memory(own.pointer));
    CHECK(SharedHostMemory::is_handle(handle));
    CHECK_FALSE(SharedHostMemory::is_handle(MemoryHandle{}));
    size_t registered = 0;
    const auto note = [&](void*, size_t bytes) { return registered += bytes, Result<void>(); };
    auto* const first = static_cast<char*>(must(importer.import_memory(handle, note)));
    auto* const second = static_cast<char*>(must(importer.import_memory(handle, note)));
    CHECK(first != second);
    CHECK(registered == 2 * 8192);
    first[8191] = 8;
    CHECK(second[8191] == 8);
    CHECK(second[0] == 7);
    exporter.free(own.pointer);
    CHECK(second[4999] == 7);
    const auto forget = [&](void*) { return registered -= 8192, Result<void>(); };
    const auto closed = importer.close(first, forget);
    REQUIRE(closed);
    CHECK(registered == 8192);
    CHECK_FALSE(importer.close(first, forget));
    const auto fail = [](void*) { return Result<void>(Error{Status::kDevice, "a device that has failed"}); };
    const auto kept = importer.close(second, fail);
    REQUIRE(kept);
    CHECK(second[4999] == 7); // it stays mapped
}

TEST_CASE("what cannot be registered is not imported") {
    SharedHostMemory exporter, importer;
    const MemoryHandle handle = must(exporter.export_memory(must(exporter.allocate(1)).pointer));
    void* refused = nullptr;
    const auto refuse = [&](void* memory, size_t) {
        refused = memory;
        return Result<void>(Error{Status::kMemory, "no more can be pinned"});
    };
    CHECK_STATUS(importer.import_memory(handle, refuse), Status::kMemory);
    CHECK_FALSE(importer.close(refused, [](void*) { return Result<void>(); }));
}

TEST_CASE("what has been freed is not mapped, also if its address has other memory") {
    SharedHostMemory exporter, importer;
    void* const freed = must(exporter.allocate(4096)).pointer;
    const MemoryHandle handle = must(exporter.export_memory(freed));
    exporter.free(freed);
    exporter.free(freed); // nothing happens
    CHECK_STATUS(exporter.export_memory(freed), Status::kBuffer);
    CHECK_STATUS(importer.import_memory(handle, any), Status::kBuffer);
    std::vector<void*> others;
    while (std::find(others.begin(), others.end(), freed) == others.end() && others.size() < 100)
        others.push_back(must(exporter.allocate(4096)).pointer);
    CHECK_STATUS(importer.import_memory(handle, any), Status::kBuffer);
    for (void* const each : others)
        exporter.free(each);
}

TEST_CASE("descriptors are kept for a quarter of what the process may have, and given back") {
    const DescriptorLimit limit(200);
    SharedHostMemory memory;
    std::vector<SharedHostMemory::Allocation> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(must(memory.allocate(1)));
    CHECK(std::count_if(all.begin(), all.end(), [](const auto& each) { return each.exportable; }) == 50);
    CHECK(all.front().exportable);
    CHECK_STATUS(memory.export_memory(all.back().pointer), Status::kBuffer);
    memory.free(all.front().pointer);
    all.front() = must(memory.allocate(1));
    CHECK(all.front().exportable);
    for (const auto& each : all)
        memory.free(each.pointer);
}

TEST_CASE("without descriptors there is memory all the same, and without memory an error") {
    SharedHostMemory memory;
    {
        const DescriptorLimit limit(3);
        const auto made = must(memory.allocate(100));
        CHECK_FALSE(made.exportable);
        std::memset(made.pointer, 1, 100);
        memory.free(made.pointer);
    }
    CHECK_STATUS(memory.allocate(SIZE_MAX), Status::kMemory);
    CHECK_STATUS(memory.allocate(SIZE_MAX / 2), Status::kMemory);
    CHECK_STATUS(memory.allocate(SIZE_MAX / 4), Status::kMemory);
}

TEST_CASE("who has ended is not asked") {
    MemoryHandle handle{};
    SharedHostMemory importer;
    {
        SharedHostMemory exporter;
        handle = must(exporter.export_memory(must(exporter.allocate(1)).pointer));
    }
    CHECK_STATUS(importer.import_memory(handle, any), Status::kSystem);
}

TEST_SUITE_END();
