// Pinned memory of gpurun_malloc_host(), which other processes can map: each allocation is a segment of its own, whose
// descriptor a thread of this process gives to whoever asks and knows its handle. Both implementations of a device
// take their pinned memory from here; what their streams need for it is theirs. Any thread.
#pragma once

#include "device/types.hpp"
#include "platform/descriptor_server.hpp"
#include "platform/shared_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace gpurun::device {

class SharedHostMemory {
  public:
    SharedHostMemory();
    ~SharedHostMemory(); // what has not been freed stays, for the program
    SharedHostMemory(const SharedHostMemory&) = delete;
    SharedHostMemory& operator=(const SharedHostMemory&) = delete;

    struct Range {
        void* pointer = nullptr;
        size_t bytes = 0; // whole pages
    };

    // ---- exporter
    base::Result<Range> allocate(size_t bytes);
    void free(void* pointer); // mappings of other processes stay
    // False: there are so many that their descriptors would leave the process too few others.
    bool is_exportable(const void* base) const;
    // kBuffer unless it is exportable.
    base::Result<MemoryHandle> export_memory(const void* base);

    // ---- importer
    static bool is_handle(const MemoryHandle& handle);
    // kBuffer if it has been freed.
    base::Result<Range> import_memory(const MemoryHandle& handle);
    // Nothing (no data) if it was not imported here.
    platform::Mapping take_import(void* imported);

  private:
    struct HandleBytes;
    struct Entry {
        platform::Mapping mapping;
        platform::UniqueFd fd; // none: not exportable
        uint64_t number = 0;   // never that of another allocation
    };

    base::Result<platform::OfferedDescriptor> offer(uint64_t base);

    const size_t most_descriptors_;
    mutable std::mutex mutex_; // guards the others
    std::map<const void*, Entry> allocations_;
    size_t descriptors_ = 0;
    uint64_t last_number_ = 0;
    std::map<void*, platform::Mapping> imports_;
    std::unique_ptr<platform::DescriptorServer> server_; // goes first: its thread uses the others
};

} // namespace gpurun::device
