// The event fence: each edge is an IPC event of its signaller, for devices whose streams cannot await numbers.
//
// A wait latches the event's latest record when it is made, so the waiter must know that the record came first:
// the number in shared memory is stored by the CPU right after it has recorded. An edge that the CPU signals has a
// number and no new record, which a wait on an older (or no) record leaves right. Events are made and imported when
// their slot is first used, at most two for each slot of the pair.
#include "transfer/fence.hpp"

#include "base/check.hpp"
#include "platform/wake.hpp"

#include <array>
#include <cstring>
#include <optional>

namespace gpurun::transfer {

using base::Result;

namespace {

class EventFence final : public Fence {
  public:
    EventFence(device::Device& device, platform::FenceSlot* slots, platform::EventHandles* handles, Role role, int peer)
        : Fence(slots), device_(device), handles_(handles), role_(role), peer_(peer) {}

    ~EventFence() override {
        for (auto& side : events_)
            for (auto& event : side)
                if (event)
                    (void)device_.destroy_event(*event); // a device that has failed keeps them; nothing to do
    }

    Result<void> signal(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) override {
        CHECK(mine(edge));
        GPURUN_ASSIGN(const device::Event event, own_event(edge, slot));
        GPURUN_TRY(device_.record(event, stream));
        // Publishes the record (and, the first time, the handle); pairs with await() and reached().
        platform::store_and_wake(counter(edge, slot), value);
        return {};
    }

    Result<void> await(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        CHECK(now >= value);
        if (platform::is_poisoned(now))
            return {};
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot));
        if (!event)
            return {};
        return device_.await_event(stream, *event);
    }

    Result<bool> reached(Edge edge, uint32_t slot, uint64_t value) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        if (now < value)
            return false;
        if (platform::is_poisoned(now))
            return true;
        return completed(edge, slot);
    }

    Result<bool> cut_short(Edge edge, uint32_t slot, uint64_t value) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        if (!platform::is_poisoned(now))
            return false;
        if (platform::reached_value(now) < value)
            return true;
        if (platform::reached_value(now) > value && !is_relayed(slot))
            return false; // taken again since, which it is only when its last use has ended
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot));
        if (!event)
            return false;
        GPURUN_ASSIGN(const bool done, device_.truly_complete(*event));
        return !done;
    }

  private:
    // Its next use runs behind the last one.
    static bool is_relayed(uint32_t slot) { return slot >= kRelaySlot && slot < kLateSlot; }
    bool mine(Edge edge) const { return role_ == Role::kBoth || (edge == Edge::kForward) == (role_ == Role::kSource); }

    Result<bool> completed(Edge edge, uint32_t slot) {
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot));
        if (!event)
            return true;
        return device_.query(*event);
    }

    std::byte* handle(Edge edge, uint32_t slot) const {
        return edge == Edge::kForward ? handles_->forward[slot] : handles_->backward[slot];
    }
    std::optional<device::Event>& held(Edge edge, uint32_t slot) {
        return events_[edge == Edge::kForward ? 0 : 1][slot];
    }

    Result<device::Event> own_event(Edge edge, uint32_t slot) {
        auto& event = held(edge, slot);
        if (!event) {
            GPURUN_ASSIGN(const device::Event made, device_.create_shared_event());
            GPURUN_ASSIGN(const device::EventHandle exported, device_.export_event(made));
            std::memcpy(handle(edge, slot), exported.bytes.data(), exported.bytes.size());
            event = made;
        }
        return *event;
    }

    // None if no stream has ever signalled the edge. REQUIRES: the edge's number has been seen (acquire) above 0.
    Result<std::optional<device::Event>> event_of(Edge edge, uint32_t slot) {
        auto& event = held(edge, slot);
        if (!event && !mine(edge)) {
            device::EventHandle exported;
            std::memcpy(exported.bytes.data(), handle(edge, slot), exported.bytes.size());
            if (exported.bytes == device::EventHandle{}.bytes)
                return std::optional<device::Event>();
            GPURUN_ASSIGN(const device::Event imported, device_.import_event(peer_, exported));
            event = imported;
        }
        return event;
    }

    device::Device& device_;
    platform::EventHandles* handles_;
    Role role_;
    int peer_;
    std::array<std::array<std::optional<device::Event>, kSlotsUsed>, 2> events_{};
};

} // namespace

std::unique_ptr<Fence> make_event_fence(device::Device& device, const platform::Mapping& fences,
                                        const platform::Mapping& events, Role role, int peer) {
    return std::make_unique<EventFence>(device, reinterpret_cast<platform::FenceSlot*>(fences.data()),
                                        reinterpret_cast<platform::EventHandles*>(events.data()), role, peer);
}

} // namespace gpurun::transfer
