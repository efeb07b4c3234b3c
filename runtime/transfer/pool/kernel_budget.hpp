// The kernel budget: bounds the blocks of this rank's kernels that spin on its device at a time, so that there is room
// for the work that they wait for. Used under the engine lock.
#pragma once

#include "device/capability/mails.hpp"
#include "device/device.hpp"
#include "transfer/pool/process_share.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace gpurun::transfer {

class KernelBudget {
  public:
    // `device_blocks` may spin on the device (Info::spinning_blocks), which so many ranks share, and so many engines of
    // each.
    KernelBudget(uint32_t device_blocks, uint32_t ranks_on_device, const EngineCount& engines = kOneEngine)
        : blocks_(std::max(device_blocks / ranks_on_device, 1U)), shares_device_(ranks_on_device > 1),
          engines_(engines) {}

    uint32_t blocks() const {
        const uint32_t engines = engines_.load(std::memory_order_relaxed);
        return engines == 1 ? blocks_ : std::max(blocks_ / engines, 1U);
    }
    bool shares_device() const { return shares_device_; } // with other ranks
    // How many blocks a message of a graph may wait with. Nobody knows how many graphs run side by side; so that the
    // first few fill no more than the budget, and more of them as little as possible.
    uint32_t blocks_in_graph() const { return std::max(blocks() / kGraphsAtOnce, 1U); }
    // What a kernel spins for: it has ended once each of these counters reads its value.
    class Ends {
      public:
        Ends() = default;
        Ends(const device::Counter& done, uint64_t value) { add(done, value); }
        // REQUIRES: it has fewer than kMost.
        void add(const device::Counter& done, uint64_t value) { all_[number_++] = {&done, value}; }
        bool have_come();

      private:
        struct End {
            const device::Counter* done;
            uint64_t value;
        };
        // What an exchange takes, pulls and awaits.
        static constexpr size_t kMost = 2 * device::kMostExchanged + device::kMostPulled;
        std::array<End, kMost> all_;
        size_t number_ = 0;
    };
    // Whether a kernel of so many `blocks` may spin in `stream`. Kernels in one stream run one after the other, and
    // count once.
    bool admits(device::Stream stream, uint32_t blocks, const Ends& ends);

  private:
    struct SpinningKernel {
        device::Stream stream;
        uint32_t blocks;
        Ends ends;
    };
    static constexpr uint32_t kGraphsAtOnce = 3;

    const uint32_t blocks_; // of all engines of this rank
    const bool shares_device_;
    const EngineCount& engines_;
    std::vector<SpinningKernel> spinning_;
};

} // namespace gpurun::transfer
