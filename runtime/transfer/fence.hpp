// How work of two ranks is ordered: numbered edges between a source and a target.
//
// A Fence serves one ordered pair of ranks, in one of its two processes. It has kFenceSlots slots; each has an edge
// `forward`, signalled on the source's side and awaited on the target's, and an edge `backward` the other way. An
// edge's values only grow (by kStep), and a value is signalled once. Signals and waits are enqueued in streams, or
// done by the CPU.
//
// Two kinds, interchangeable, both under the same tests:
//   counter_fence.cpp  a number in pinned shared memory, written and awaited by streams
//   event_fence.cpp    an IPC event for each edge; the number says which record is known to have been made
//
// When the signalling rank dies, the launcher poisons the number: await() and reached() then behave as if the value
// had come, and poisoned() says that it had not.
#pragma once

#include "base/settings.hpp"
#include "device/device.hpp"
#include "platform/job_segment.hpp"

#include <memory>

namespace gpurun::transfer {

enum class Edge { kForward, kBackward };
enum class Role { kSource, kTarget, kBoth }; // kBoth: a rank and itself

// Slots by use. Values and their reuse are private to each use.
constexpr uint32_t kDirectSlot = 0;
constexpr uint32_t kDirectSlots = 32;
constexpr uint32_t kEagerSlot = kDirectSlot + kDirectSlots;
constexpr uint32_t kRelaySlot = kEagerSlot + static_cast<uint32_t>(platform::kEagerBuffers);
// For requests that found no direct slot, once they are matched: messages that nobody receives cannot hold these.
constexpr uint32_t kLateSlot = kRelaySlot + static_cast<uint32_t>(platform::kRelayPools * platform::kRelayBuffers);
constexpr uint32_t kLateSlots = 24;
constexpr uint32_t kMailSlot = kLateSlot + kLateSlots;
constexpr uint32_t kMailSlots = 32;
constexpr uint32_t kSmallMailSlot = kMailSlot + kMailSlots; // of up to device::kSmallMailBytes
constexpr uint32_t kSmallMailSlots = 96;
constexpr uint32_t kSlotsUsed = kSmallMailSlot + kSmallMailSlots;
static_assert(kSlotsUsed <= platform::kFenceSlots);

constexpr uint64_t kStep = 2; // values are even: bit 0 belongs to poison

class Fence {
  public:
    virtual ~Fence() = default;

    // Enqueue: the edge reaches `value` after everything before in the stream.
    // REQUIRES: this side is the edge's signalling side.
    virtual base::Result<void> signal(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) = 0;
    // Enqueue: what follows in the stream starts once the edge has reached `value`.
    // REQUIRES: the signal of `value` is known to have been enqueued or done.
    virtual base::Result<void> await(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) = 0;
    // Whether `value` has come, as seen by the CPU (acquire). True if the edge is poisoned.
    virtual base::Result<bool> reached(Edge edge, uint32_t slot, uint64_t value) = 0;

    // The CPU signals, now (release). Does not ring the peer's doorbell.
    void signal_now(Edge edge, uint32_t slot, uint64_t value);
    // Whether the edge's signaller died before it reached `value`.
    virtual base::Result<bool> cut_short(Edge edge, uint32_t slot, uint64_t value) = 0;

    // The edge's number, for operations that await or signal it themselves. REQUIRES: a counter fence.
    device::Counter& counter(Edge edge, uint32_t slot) const {
        return edge == Edge::kForward ? slots_[slot].forward : slots_[slot].backward;
    }

  protected:
    explicit Fence(platform::FenceSlot* slots) : slots_(slots) {}

  private:
    platform::FenceSlot* slots_;
};

// reached(), or kPeerLost if the signaller died before.
base::Result<bool> reached_alive(Fence& fence, Edge edge, uint32_t slot, uint64_t value);

// `fences` must be registered with the device for the counter fence. Both outlive the fence.
std::unique_ptr<Fence> make_counter_fence(device::Device& device, const platform::Mapping& fences);
std::unique_ptr<Fence> make_event_fence(device::Device& device, const platform::Mapping& fences,
                                        const platform::Mapping& events, Role role, int peer);

} // namespace gpurun::transfer
