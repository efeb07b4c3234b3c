// Pinned memory that other processes map. Here one object exports and another one imports.
#include "device/shared_host.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <cstring>
#include <sys/resource.h>
#include <vector>

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

} // namespace

TEST_SUITE_BEGIN("shared host memory");

TEST_CASE("what one has written, the other reads, wherever it is mapped and after it was freed") {
    SharedHostMemory exporter, importer;
    const SharedHostMemory::Range own = must(exporter.allocate(5000));
    CHECK(own.bytes == 8192);
    std::memset(own.pointer, 7, own.bytes);
    const MemoryHandle handle = must(exporter.export_memory(own.pointer));
    CHECK(SharedHostMemory::is_handle(handle));
    CHECK_FALSE(SharedHostMemory::is_handle(MemoryHandle{}));
    const SharedHostMemory::Range first = must(importer.import_memory(handle));
    const SharedHostMemory::Range second = must(importer.import_memory(handle));
    CHECK(first.pointer != second.pointer);
    CHECK(first.bytes == 8192);
    static_cast<char*>(first.pointer)[8191] = 8;
    CHECK(static_cast<char*>(second.pointer)[8191] == 8);
    CHECK(static_cast<char*>(second.pointer)[0] == 7);
    exporter.free(own.pointer);
    CHECK(static_cast<char*>(second.pointer)[4999] == 7);
    CHECK(importer.take_import(first.pointer).data() == first.pointer);
    CHECK(importer.take_import(first.pointer).data() == nullptr);
}

TEST_CASE("what has been freed is not mapped, also if its address has other memory") {
    SharedHostMemory exporter, importer;
    void* const freed = must(exporter.allocate(4096)).pointer;
    const MemoryHandle handle = must(exporter.export_memory(freed));
    exporter.free(freed);
    exporter.free(freed); // nothing happens
    CHECK_FALSE(exporter.is_exportable(freed));
    CHECK_STATUS(exporter.export_memory(freed), Status::kBuffer);
    CHECK_STATUS(importer.import_memory(handle), Status::kBuffer);
    std::vector<void*> others;
    while (std::find(others.begin(), others.end(), freed) == others.end() && others.size() < 100)
        others.push_back(must(exporter.allocate(4096)).pointer);
    CHECK_STATUS(importer.import_memory(handle), Status::kBuffer);
    for (void* const each : others)
        exporter.free(each);
}

TEST_CASE("descriptors are kept for a quarter of what the process may have, and given back") {
    const DescriptorLimit limit(200);
    SharedHostMemory memory;
    std::vector<void*> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(must(memory.allocate(1)).pointer);
    const auto exportable = [&] {
        return std::count_if(all.begin(), all.end(), [&](void* each) { return memory.is_exportable(each); });
    };
    CHECK(exportable() == 50);
    CHECK(memory.is_exportable(all.front()));
    CHECK_STATUS(memory.export_memory(all.back()), Status::kBuffer);
    memory.free(all.front());
    all.front() = must(memory.allocate(1)).pointer;
    CHECK(exportable() == 50);
    for (void* const each : all)
        memory.free(each);
}

TEST_CASE("who has ended is not asked") {
    MemoryHandle handle{};
    SharedHostMemory importer;
    {
        SharedHostMemory exporter;
        handle = must(exporter.export_memory(must(exporter.allocate(1)).pointer));
    }
    CHECK_STATUS(importer.import_memory(handle), Status::kSystem);
}

TEST_SUITE_END();
