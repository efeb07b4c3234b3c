// A fence orders the streams of two ranks: it has slots, each with an edge in either direction.
//
// A Fence serves one ordered pair of ranks, in one of its two processes. Each slot has an edge `forward`, signalled by
// the source and awaited by the target, and an edge `backward` the other way. The values of an edge only grow, and each
// is signalled once. Signals and waits are enqueued in streams, or made by the CPU.
//
// Two kinds, interchangeable, under the same tests:
//   counter_fence.cpp  the edge is a number in pinned shared memory, written and awaited by streams
//   event_fence.cpp    the edge is an IPC event; the number says which record is known to have been made
// A channel without memory in common has its own, which carries numbers (channel/carried_channel.cpp).
//
// When the rank that signals dies, the launcher poisons the number: await() and reached() then behave as if the value
// had come, and cut_short() says that it had not.
#pragma once

#include "base/settings.hpp"
#include "device/capability/counters.hpp"
#include "device/device.hpp"
#include "platform/job_segment.hpp"
#include "transfer/fence/slot.hpp"

#include <memory>

namespace gpurun::transfer {

enum class Edge { kForward, kBackward };
enum class Side { kSource, kTarget, kBoth }; // of this process; kBoth: a rank and itself

class Fence {
  public:
    virtual ~Fence() = default;

    // Enqueue: the edge reaches the slot's value after everything before in the stream.
    // REQUIRES: this side is the one that signals the edge.
    virtual base::Result<void> signal(Edge edge, const Slot& slot, device::Stream stream) = 0;
    // Enqueue: what follows in the stream starts once the edge has reached the slot's value.
    // REQUIRES: the signal is known to have been enqueued or made.
    virtual base::Result<void> await(Edge edge, const Slot& slot, device::Stream stream) = 0;
    // Whether the edge has reached the value, as the CPU sees it (acquire). True if it is poisoned.
    virtual base::Result<bool> reached(Edge edge, const Slot& slot) = 0;
    // Whether the rank that signals the edge died before it reached the value.
    virtual base::Result<bool> cut_short(Edge edge, const Slot& slot) = 0;
    // Whether a value that an edge has reached can be seen for ever. If not (events), a later use of the slot hides it,
    // so a message whose end somebody may look for later needs an event of its own.
    virtual bool edges_last() const = 0;

    // The CPU signals, now (release). Does not notify the peer.
    virtual void signal_now(Edge edge, const Slot& slot);
    // reached(), or kPeerLost if the rank that signals died before.
    base::Result<bool> reached_alive(Edge edge, const Slot& slot);
    // The edge's number, for operations that await or signal it themselves.
    device::Counter& counter(Edge edge, uint32_t slot_number) const {
        return edge == Edge::kForward ? slots_[slot_number].forward : slots_[slot_number].backward;
    }
    device::Counter& counter(Edge edge, const Slot& slot) const { return counter(edge, slot.number()); }

  protected:
    explicit Fence(platform::FenceSlot* slots) : slots_(slots) {}

  private:
    platform::FenceSlot* slots_; // platform::kFenceSlots of them
};

// The counters by which streams of two ranks are ordered: the device's, unless events were asked for. Null: events do
// it.
inline device::Counters* ordering_counters(device::Device& device, const base::Settings& settings) {
    return settings.fence == base::FenceKind::kEvent ? nullptr : device.counters();
}
// `slots` must be registered with the device for the counter fence. Everything passed outlives the fence.
std::unique_ptr<Fence> make_counter_fence(device::Counters& counters, platform::FenceSlot* slots);
std::unique_ptr<Fence> make_event_fence(device::Device& device, platform::FenceSlot* slots,
                                        platform::EventHandles* handles, Side side, int peer);

} // namespace gpurun::transfer
