// What a transfer that is not complete for its caller waits for on a device: an edge of a fence, or an event.
// Set only for waits that the CPU makes; the engine asks it whether it has come, and to ring when it does.
#pragma once

#include "transfer/fence.hpp"

#include <optional>

namespace gpurun::transfer {

struct Awaited {
    Fence* fence = nullptr;
    Edge edge = Edge::kForward;
    uint32_t slot = 0;
    uint64_t value = 0;
    device::Event event{};
    bool on_event = false;
    bool operator==(const Awaited&) const = default;

    static Awaited edge_of(Fence* fence, Edge edge, uint32_t slot, uint64_t value) {
        return Awaited{fence, edge, slot, value, {}, false};
    }
    static Awaited event_of(device::Event event) { return Awaited{nullptr, Edge::kForward, 0, 0, event, true}; }

    // kPeerLost if it never will.
    base::Result<bool> come(device::Device& device) const {
        if (on_event)
            return device.query(event);
        return reached_alive(*fence, edge, slot, value);
    }
    // Enqueue: `stream` goes on once it has come. REQUIRES: its signal is known to be enqueued.
    base::Result<void> await(device::Device& device, device::Stream stream) const {
        if (on_event)
            return device.await_event(stream, event);
        return fence->await(edge, slot, value, stream);
    }
};

} // namespace gpurun::transfer
