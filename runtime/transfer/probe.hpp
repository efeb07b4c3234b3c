// Whether direct copies from a peer's device work: asked of the device, then tried.
//
// Some machines accept peer copies over PCIe and drop the data (IOMMU), some containers refuse IPC. So every rank
// leaves a small allocation with a known pattern, and a peer copies it once, through the same calls that messages
// use, before it trusts the direct path.
#pragma once

#include "transfer/context.hpp"
#include "transfer/path.hpp"

namespace gpurun::transfer {

class Probe {
  public:
    // Fills `record`'s device and probe fields. REQUIRES: before the rank is ready. Without exportable memory the
    // rank has no probe, and nobody copies from it directly.
    static base::Result<Probe> publish(device::Device& device, platform::RankRecord& record, uint32_t rank);

    Probe(Probe&& other) noexcept : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}
    ~Probe();

  private:
    Probe(device::Device& device, void* memory) : device_(device), memory_(memory) {}
    device::Device& device_;
    void* memory_;
};

device::Identity peer_identity(const platform::RankRecord& record);

// kDirect with kSameDevice or kPeerAccess, or kStaged with the reason why not.
// Whether what this rank writes into memory imported from a peer can be read back. The memory, at least a page, reads
// 0 before and after.
base::Result<bool> can_write(Context& context, std::byte* imported);
Choice find_reach(Context& context, uint32_t peer);

} // namespace gpurun::transfer
