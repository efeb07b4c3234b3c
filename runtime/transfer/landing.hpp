// Pinned buffers that hold what a stream is to copy on: the payload of an inline message, a mail for pageable memory.
//
// One a rank, in Context; used under the engine lock.
#pragma once

#include "base/list.hpp"
#include "device/device.hpp"

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

namespace gpurun::transfer {

class Landing {
  public:
    static constexpr size_t kBytes = 64 * 1024;            // of the largest buffer
    static constexpr size_t kMostBytes = size_t{64} << 20; // of the buffers of one size

    struct Left {};
    struct Buffer : base::Linked<Buffer, Left> {
        std::byte* data;
        device::Event copied;
        size_t shelf;
    };

    explicit Landing(device::Device& device) : device_(device) {}
    ~Landing();

    // A buffer of at least `bytes`, which is its taker's until one of the two below. Waits for the device only where
    // kMostBytes are taken.
    base::Result<Buffer*> take(size_t bytes);
    // Nothing copies out of it any more.
    void give_back(Buffer& buffer) { shelves_[buffer.shelf].idle.push_back(&buffer); }
    // Somebody does until `copied`, which is recorded, and nobody will say when.
    void leave(Buffer& buffer) { shelves_[buffer.shelf].left.push_back(buffer); }

  private:
    // Buffers of one size.
    struct Shelf {
        size_t bytes;
        size_t in_block;
        std::deque<Buffer> buffers;
        std::vector<Buffer*> idle;     // has room for all
        base::List<Buffer, Left> left; // of several streams, each in its order: some may be over behind one that is not
    };
    static constexpr size_t kLooks = 8; // at those that were left, before there are more buffers

    base::Result<Buffer*> find_over(Shelf& shelf);
    base::Result<void> grow(size_t index);

    device::Device& device_;
    std::vector<void*> blocks_;
    std::array<Shelf, 3> shelves_{{{1024, 64}, {8 * 1024, 64}, {kBytes, 8}}};
};

} // namespace gpurun::transfer
