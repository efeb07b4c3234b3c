// Device memory that peers can map, for messages in streams whose own memory they cannot: a message lies there from its
// source's copy until its target has pulled it.
//
// One pool a rank; used under the engine lock.
#pragma once

#include "transfer/fence/completion_point.hpp"
#include "transfer/pool/allotment.hpp"

#include <deque>

namespace gpurun::transfer {

class BouncePool {
  public:
    static constexpr size_t kSlabBytes = size_t{16} << 20; // that are allocated, and mapped, at once

    struct Buffer {
        std::byte* data = nullptr;
        device::Buffer where;
        size_t bytes = 0;
        size_t slab = 0;
    };

    BouncePool(device::Device& device, uint32_t ranks_on_device);
    ~BouncePool();

    // The taker's until it calls one of the next two. None if there is no room now.
    std::optional<Buffer> take(size_t bytes);
    // Nobody uses it any more.
    void give_back(const Buffer& buffer);
    // Somebody uses it until `end`, the last edge of a slot.
    void leave(const Buffer& buffer, const CompletionPoint& end);
    size_t lent() const { return lent_; }

  private:
    struct Slab {
        std::byte* memory;
        device::Buffer where;
        Allotment room{kSlabBytes};
    };
    struct Left {
        Buffer buffer;
        CompletionPoint end;
    };

    std::optional<Buffer> find(size_t bytes);
    void free(const Buffer& buffer);
    void reclaim();
    bool grow();

    device::Device& device_;
    const size_t most_slabs_;
    std::deque<Slab> slabs_;
    std::deque<Left> left_;
    size_t lent_ = 0;
    bool is_full_ = false; // the device has no memory for another slab
};

} // namespace gpurun::transfer
