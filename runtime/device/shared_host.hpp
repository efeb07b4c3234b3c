// Pinned memory of gpurun_malloc_host(), which other processes can map: each allocation is a segment of its own, whose
// descriptor a thread of this process gives to whoever asks and knows its handle. Both implementations of a device
// take their pinned memory from here; what their streams need for it is theirs. Any thread.
#pragma once

#include "base/function_ref.hpp"
#include "device/types.hpp"
#include "platform/descriptor_server.hpp"
#include "platform/shared_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace gpurun::device {

class SharedHostMemory {
  public:
    SharedHostMemory();
    ~SharedHostMemory(); // what has not been freed stays, for the program
    SharedHostMemory(const SharedHostMemory&) = delete;
    SharedHostMemory& operator=(const SharedHostMemory&) = delete;

    // ---- exporter
    struct Allocation {
        void* pointer = nullptr;
        size_t bytes = 0;        // whole pages
        bool exportable = false; // false: descriptors for so many would leave the process too few others
    };
    base::Result<Allocation> allocate(size_t bytes);
    void free(void* pointer); // mappings of other processes stay
    // kBuffer unless it is exportable.
    base::Result<MemoryHandle> export_memory(const void* base);

    // ---- importer
    using Register = base::FunctionRef<base::Result<void>(void* memory, size_t bytes)>;
    using Unregister = base::FunctionRef<base::Result<void>(void* memory)>;

    static bool is_handle(const MemoryHandle& handle);
    // kBuffer if it has been freed.
    base::Result<void*> import_memory(const MemoryHandle& handle, Register register_it);
    // Nothing if it was not imported here. What cannot be unregistered stays mapped.
    std::optional<base::Result<void>> close(void* imported, Unregister unregister);

  private:
    struct Entry {
        platform::Mapping mapping;
        platform::UniqueFd fd; // none: not exportable
        uint64_t number = 0;   // never that of another allocation
    };

    base::Result<platform::OfferedDescriptor> offer(uint64_t base);

    const size_t most_descriptors_;
    std::mutex mutex_; // guards the others
    std::map<const void*, Entry> allocations_;
    size_t descriptors_ = 0;
    uint64_t last_number_ = 0;
    std::map<void*, platform::Mapping> imports_;
    std::unique_ptr<platform::DescriptorServer> server_; // its thread uses the others
};

} // namespace gpurun::device
