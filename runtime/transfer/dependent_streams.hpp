// Streams of this rank in which something waits for an edge of a peer: a death of the peer cuts their messages short,
// and wait reports name them.
//
// One for each edge of a peer that this rank awaits; used under the engine lock.
#pragma once

#include "transfer/fence/fence.hpp"

#include <optional>
#include <vector>

namespace gpurun::transfer {

class DependentStreams {
  public:
    struct Entry {
        std::optional<device::Stream> stream; // none of the program's, until the message is completed into one
        Slot slot{};
    };

    explicit DependentStreams(Edge edge) : edge_(edge) {}

    // Something in `stream` waits for the slot's edge, or for what comes behind it.
    void note(const Slot& slot, std::optional<device::Stream> stream) {
        if (entries_.empty())
            entries_.resize(kSlots);
        entries_[slot.number()] = Entry{stream, slot};
    }
    // What was noted for this use of the slot concerns `stream` from now on.
    void complete_into(const Slot& slot, device::Stream stream) {
        if (!entries_.empty() && entries_[slot.number()].slot.value == slot.value)
            entries_[slot.number()].stream = stream;
    }
    // What was noted for `from` concerns `to` from now on.
    void move(device::Stream from, device::Stream to) {
        for (Entry& each : entries_)
            if (each.slot.valid && each.stream == from)
                each.stream = to;
    }
    // Calls with each that has ever been noted.
    template <typename Call>
    void for_each(const Call& call) const {
        for (const Entry& each : entries_)
            if (each.slot.valid)
                call(each);
    }
    // Calls with each whose edge has not come, and the value that the edge has reached.
    template <typename Call>
    void for_each_held(const Fence* fence, const Call& call) const {
        if (fence == nullptr)
            return;
        for_each([&](const Entry& each) {
            const uint64_t now = fence->counter(edge_, each.slot).load();
            if (now < each.slot.value)
                call(edge_, each, now);
        });
    }

  private:
    const Edge edge_;
    std::vector<Entry> entries_; // by slot; empty as long as nothing was noted
};

} // namespace gpurun::transfer
