// A completion point: an edge of a fence, or an event, which tells that something enqueued has run. A CPU can look at
// it, an alarm can wake a thread by it, and a stream can wait for it.
#pragma once

#include "transfer/fence/fence.hpp"

namespace gpurun::transfer {

struct CompletionPoint {
    Fence* fence = nullptr; // null: the event
    Edge edge = Edge::kForward;
    Slot slot{};
    device::Event event{};

    static CompletionPoint at(Fence& fence, Edge edge, const Slot& slot) { return {&fence, edge, slot, {}}; }
    static CompletionPoint at(device::Event event) { return {nullptr, Edge::kForward, {}, event}; }

    bool on_event() const { return fence == nullptr; }
    bool operator==(const CompletionPoint& other) const {
        return fence == other.fence && event == other.event && edge == other.edge &&
               slot.number() == other.slot.number() && slot.value == other.slot.value;
    }

    // kPeerLost if it never will.
    base::Result<bool> has_come(device::Device& device) const {
        return on_event() ? device.query(event) : fence->reached_alive(edge, slot);
    }
    // Whether it is an edge that has come already, so that no stream need wait for it. Events are not asked: that costs
    // more than a wait.
    base::Result<bool> is_over() const {
        if (on_event())
            return false;
        GPURUN_ASSIGN(const bool was_cut_short, fence->cut_short(edge, slot));
        return was_cut_short ? base::Result<bool>(false) : fence->reached(edge, slot);
    }
    // Enqueue: `stream` goes on once it has come. REQUIRES: its signal is known to be enqueued.
    base::Result<void> await(device::Device& device, device::Stream stream) const {
        return on_event() ? device.await_event(stream, event) : fence->await(edge, slot, stream);
    }
};

} // namespace gpurun::transfer
