// One area of emulated device memory: a sparse segment, mapped once, with an allocator inside.
//
// The segment costs memory page by page as it is touched; what is freed goes back to the system. Addresses of
// the area are never used for anything else, so an address that is in it but not in a live allocation is known
// to be freed memory, for ever. Not locked: Memory does that.
#pragma once

#include "base/status.hpp"
#include "device/emulated/extents.hpp"
#include "platform/shared_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpurun::device::emulated {

class Arena {
  public:
    // `capacity` bytes of memory behind `front` bytes that are the caller's; both multiples of the page size.
    static base::Result<Arena> create(const char* name, size_t front, size_t capacity);

    struct Block {
        std::byte* base = nullptr;
        size_t bytes = 0;
        uint64_t id = 0;
    };

    bool contains(const void* pointer) const {
        return static_cast<const std::byte*>(pointer) >= mapping_.data() &&
               static_cast<const std::byte*>(pointer) < mapping_.data() + mapping_.size();
    }
    // Nothing if there is no room.
    std::optional<void*> allocate(size_t bytes, uint64_t id);
    // The live allocation that contains `pointer`. REQUIRES contains(pointer).
    std::optional<Block> find(const void* pointer) const;
    // Ends the life of the allocation that starts at `base`; nothing if none does.
    std::optional<Block> retire(const void* base);
    // Gives the memory of a retired allocation back to the system. The one function that needs no lock.
    base::Result<void> punch(const Block& retired) const;
    // Its place may be used again. After punch(): a new owner's bytes must not be punched away.
    void reclaim(const Block& retired) { extents_.reclaim(offset(retired.base)); }

    int fd() const { return fd_.get(); }
    // Where an address lies in the segment.
    size_t offset_in_segment(const void* pointer) const { return front_ + offset(pointer); }
    size_t rounded(size_t bytes) const { return extents_.rounded(bytes); }

  private:
    Arena(platform::UniqueFd fd, platform::Mapping mapping, size_t front)
        : fd_(std::move(fd)), mapping_(std::move(mapping)), front_(front),
          extents_(mapping_.size(), platform::page_size()) {}
    size_t offset(const void* pointer) const {
        return static_cast<size_t>(static_cast<const std::byte*>(pointer) - mapping_.data());
    }

    platform::UniqueFd fd_;
    platform::Mapping mapping_; // without the front
    size_t front_;
    Extents extents_;
};

} // namespace gpurun::device::emulated
