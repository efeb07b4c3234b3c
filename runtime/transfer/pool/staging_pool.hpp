// Staging buffers: pinned memory through which a message goes that its stream cannot copy directly, an inline message
// for device memory, or a mail for pageable memory.
//
// One pool a rank; used under the engine lock.
#pragma once

#include "base/limits.hpp"
#include "base/list.hpp"
#include "device/device.hpp"

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

namespace gpurun::transfer {

class StagingPool {
  public:
    static constexpr size_t kBytes = base::kMostMailBytes; // of the largest buffer
    static constexpr size_t kMostBytes = size_t{64} << 20; // of the buffers of one size

    struct Left {};
    struct Buffer : base::Linked<Buffer, Left> {
        std::byte* data;
        device::Event copied; // its taker records it behind the last copy out of the buffer
        size_t size_class;
    };

    explicit StagingPool(device::Device& device) : device_(device) {}
    ~StagingPool();

    // A buffer of at least `bytes`, the taker's until give_back() or leave(). Waits for the device only if kMostBytes
    // are taken.
    base::Result<Buffer*> take(size_t bytes);
    // Nothing copies out of it any more.
    void give_back(Buffer& buffer) { classes_[buffer.size_class].idle.push_back(&buffer); }
    // A copy out of it is under way, until `copied`, which is recorded; nobody will say when that has come.
    void leave(Buffer& buffer) { classes_[buffer.size_class].left.push_back(buffer); }
    size_t lent() const; // neither of the two has been said of yet

  private:
    struct SizeClass {
        size_t bytes;
        size_t in_block;
        std::deque<Buffer> buffers;
        std::vector<Buffer*> idle;     // has room for all
        base::List<Buffer, Left> left; // of several streams: one that is over may be behind one that is not
    };
    static constexpr size_t kLooks = 8; // of those that were left, before more buffers are made

    base::Result<Buffer*> find_over(SizeClass& of);
    base::Result<void> grow(size_t size_class);

    device::Device& device_;
    std::vector<void*> blocks_;
    std::array<SizeClass, 4> classes_{{{1024, 64}, {8 * 1024, 64}, {256 * 1024, 8}, {kBytes, 2}}};
};

} // namespace gpurun::transfer
