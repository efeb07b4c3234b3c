// Whether direct copies from a peer's device work: asked of the device, then tried.
//
// Some machines accept peer copies over PCIe and drop the data (IOMMU), some containers refuse IPC. So every rank
// exports a small allocation with a known pattern, the probe. A peer copies it once, by the calls that messages use,
// and compares, before it copies anything directly.
#pragma once

#include "transfer/channel/peer_channel.hpp"
#include "transfer/pool/internal_streams.hpp"

namespace gpurun::transfer {

// A rank's own probe. Peers may copy it as long as this lives.
class Probe {
  public:
    // Fills in the device and the probe of `facts`, which are yet to be told. Without exportable memory the rank has no
    // probe, and nobody copies from it directly.
    static base::Result<Probe> publish(device::Device& device, uint32_t rank, RankFacts& facts);

    Probe(Probe&& other) noexcept : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}
    ~Probe();

  private:
    Probe(device::Device& device, void* memory) : device_(device), memory_(memory) {}
    device::Device& device_;
    void* memory_;
};

enum class Reach { kSameDevice, kPeerAccess, kNoPeerAccess, kProbeFailed };
constexpr bool is_direct(Reach reach) { return reach == Reach::kSameDevice || reach == Reach::kPeerAccess; }

// Waits for no stream of others. `ret_probe`: the peer's probe memory as it is mapped here, for the caller to close
// when that may wait; not written if it was not mapped.
Reach find_reach(device::Device& device, InternalStreams& streams, const PeerChannel& channel, void*& ret_probe);
// Whether what this rank writes into memory imported from a peer can be read back. The memory, at least a page, reads
// 0 before and after.
base::Result<bool> can_write(device::Device& device, InternalStreams& streams, uint32_t rank, std::byte* imported);

} // namespace gpurun::transfer
