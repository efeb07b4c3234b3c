// The registration cache, export side: the handles of this process's own allocations, and which peers have them. Memory
// that looks exportable and that the device refuses (imported memory, for example) goes without a handle.
//
// At most kLimit; beyond that the cache is emptied. An allocation that it has forgotten is exported again; peers that
// have it mapped learn that it was freed when another allocation overlaps it. Used under the engine lock.
#pragma once

#include "base/log.hpp"
#include "device/device.hpp"

#include <optional>
#include <unordered_map>
#include <vector>

namespace gpurun::transfer {

class ExportCache {
  public:
    static constexpr size_t kLimit = 4096;

    ExportCache(device::Device& device, size_t peers) : device_(device), peers_(peers) {}

    // REQUIRES buffer.exportable. Notes that `peer` has it from now on. Nothing if the device refuses.
    std::optional<device::MemoryHandle> handle(const device::Buffer& buffer, size_t peer) {
        auto found = exports_.find(buffer.id);
        if (found == exports_.end()) {
            auto exported = device_.export_memory(buffer);
            if (!exported)
                base::log(base::LogLevel::kWarn, "memory cannot be exported ({}): its messages bounce",
                          exported.error().detail);
            if (exports_.size() == kLimit)
                exports_.clear();
            found = exports_.emplace(buffer.id, Export{}).first;
            if (exported)
                found->second = Export{*exported, std::vector<bool>(peers_)};
        }
        if (found->second.handle)
            found->second.given[peer] = true;
        return found->second.handle;
    }

    // The allocation is about to be freed: forgets it and returns who has been given its handle, by peer (empty if
    // nobody).
    std::vector<bool> forget(uint64_t id) {
        const auto found = exports_.find(id);
        if (found == exports_.end())
            return {};
        std::vector<bool> given = std::move(found->second.given);
        exports_.erase(found);
        return given;
    }

  private:
    struct Export {
        std::optional<device::MemoryHandle> handle;
        std::vector<bool> given;
    };

    device::Device& device_;
    size_t peers_;
    std::unordered_map<uint64_t, Export> exports_;
};

} // namespace gpurun::transfer
