// What a transfer that is not complete for its caller waits for on a device: an edge of a fence, or an event.
// Set only for waits that the CPU makes; the engine asks it whether it has come, and to ring when it does.
#pragma once

#include "transfer/context.hpp"
#include "transfer/fence.hpp"
#include "transfer/record.hpp"

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
    // An edge that has come already: no stream need wait for it.
    base::Result<bool> is_over(device::Device&) const {
        if (on_event)
            return false;
        GPURUN_ASSIGN(const bool cut_short, fence->cut_short(edge, slot, value));
        return cut_short ? base::Result<bool>(false) : fence->reached(edge, slot, value);
    }
    // Enqueue: `stream` goes on once it has come. REQUIRES: its signal is known to be enqueued.
    base::Result<void> await(device::Device& device, device::Stream stream) const {
        if (on_event)
            return device.await_event(stream, event);
        return fence->await(edge, slot, value, stream);
    }
};

// What says that this side's own copies in `stream` have ended: `edge`, which it has signalled behind them, or, where
// edges are events that later messages record again, an event for this message alone, kept in `end`.
base::Result<Awaited> own_end(Context& context, const Awaited& edge, device::Stream stream,
                              std::optional<device::Event>& end);

// What follows in a stream of the user's starts once the other side's edge has come: as soon as it can, if there is
// room to watch it (Context::waits). REQUIRES: its signal is known to be enqueued.
base::Result<void> await_in_stream(Context& context, Fence& fence, Edge edge, const SlotValue& slot,
                                   device::Stream stream);

// The same for whom an internal stream is given back to.
inline StreamEnd end_of(const Context& context, const std::optional<Awaited>& awaited) {
    if (!awaited || awaited->on_event || context.uses_event_fence()) // whose numbers say what was recorded
        return {};
    return {&awaited->fence->counter(awaited->edge, awaited->slot), awaited->value};
}

inline void give_back(std::optional<device::Event>& event, Context& context) {
    if (event)
        context.events.give_back(*event);
    event.reset();
}

} // namespace gpurun::transfer
