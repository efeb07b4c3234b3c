// What this process knows of its peers' emulated devices, and the parts of their memory that it has mapped.
//
// A peer's descriptor and control area stay until it is forgotten, so that streams may wait on its words without owning
// them. Imports are mapped one allocation at a time, at an address of this process's own, and are
// as strict as the strictest driver: the same allocation, or a newer one at the place of an open mapping, is
// refused. A mapping outlives its exporter. Any thread.
#pragma once

#include "device/emulated/control.hpp"
#include "device/types.hpp"
#include "platform/shared_memory.hpp"

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>

namespace gpurun::device::emulated {

class Peers {
  public:
    explicit Peers(uint64_t own_token) : own_token_(own_token) {}

    // `unreachable`: why streams cannot copy from the peer's memory; empty if they can.
    base::Result<void> add(int peer, platform::UniqueFd fd, std::string unreachable);
    // The peer has died. Unknown peers are nobody's loss.
    void release(int peer);
    // REQUIRES: nothing of it is imported any more, and no stream waits on its words.
    void forget(int peer);

    base::Result<void*> import_memory(int peer, const MemoryHandle& handle);
    base::Result<void> close_memory(void* imported);

    // Whether [pointer, pointer + bytes) is imported memory. An error if it is but streams cannot copy there:
    // kBuffer past the allocation's end, kDevice without peer access.
    base::Result<bool> check_import(const void* pointer, size_t bytes) const;

    // The control area that an event handle's `token` belongs to; lives as long as this object.
    base::Result<const Control*> control(int peer, uint64_t token) const;

  private:
    struct Peer {
        platform::UniqueFd fd;
        Control control;
        std::string unreachable;
    };
    struct Import {
        platform::Mapping mapping;
        int peer;
        uint64_t offset; // in the peer's segment
    };
    base::Result<const Peer*> find(int peer) const;

    const uint64_t own_token_;
    mutable std::shared_mutex mutex_; // guards the maps; a Peer never changes
    std::map<int, std::unique_ptr<const Peer>> peers_;
    std::map<uintptr_t, Import> imports_; // by address here
    // The same, by peer and offset in its segment: where each ends there. None overlap.
    std::map<std::pair<int, uint64_t>, uint64_t> open_parts_;
};

} // namespace gpurun::device::emulated
