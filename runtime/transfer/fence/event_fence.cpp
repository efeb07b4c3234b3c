// The event fence: each edge is an IPC event of the rank that signals it, for devices whose streams cannot await
// numbers.
//
// A wait latches the event's latest record when it is made, so the waiter must know that the record came first:
// the number in shared memory is stored by the CPU right after it has recorded. An edge that the CPU signals has a
// number and no new record, which a wait on an older (or no) record leaves right. Events are made and imported when
// their slot is first used, at most two for each slot of the pair.
#include "transfer/fence/fence.hpp"

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
    EventFence(device::Device& device, platform::FenceSlot* slots, platform::EventHandles* handles, Side side, int peer)
        : Fence(slots), device_(device), handles_(handles), side_(side), peer_(peer) {}

    ~EventFence() override {
        for (auto& side : events_)
            for (auto& event : side)
                if (event)
                    (void)device_.destroy_event(*event); // a device that has failed keeps them; nothing to do
    }

    Result<void> signal(Edge edge, const Slot& slot, device::Stream stream) override {
        GPURUN_ASSERT(mine(edge));
        GPURUN_ASSIGN(const device::Event event, own_event(edge, slot.number()));
        GPURUN_TRY(device_.record(event, stream));
        // Publishes the record (and, the first time, the handle); pairs with await() and reached().
        platform::store_and_wake(counter(edge, slot), slot.value);
        return {};
    }

    Result<void> await(Edge edge, const Slot& slot, device::Stream stream) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        GPURUN_ASSERT(now >= slot.value);
        if (platform::is_poisoned(now))
            return {};
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot.number()));
        if (!event)
            return {};
        return device_.await_event(stream, *event);
    }

    Result<bool> reached(Edge edge, const Slot& slot) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        if (now < slot.value)
            return false;
        if (platform::is_poisoned(now))
            return true;
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot.number()));
        if (!event)
            return true;
        return device_.query(*event);
    }

    Result<bool> cut_short(Edge edge, const Slot& slot) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        if (!platform::is_poisoned(now))
            return false;
        if (platform::reached_value(now) < slot.value)
            return true;
        if (platform::reached_value(now) > slot.value && info_of(slot.slots).freed_by != FreedBy::kPipelining)
            return false; // the slot is in use again, so this use has ended
        GPURUN_ASSIGN(const std::optional<device::Event> event, event_of(edge, slot.number()));
        if (!event)
            return false;
        GPURUN_ASSIGN(const bool done, device_.truly_complete(*event));
        return !done;
    }

    bool edges_last() const override { return false; }

  private:
    bool mine(Edge edge) const { return side_ == Side::kBoth || (edge == Edge::kForward) == (side_ == Side::kSource); }

    std::byte* handle(Edge edge, uint32_t number) const {
        return edge == Edge::kForward ? handles_->forward[number] : handles_->backward[number];
    }
    std::optional<device::Event>& held(Edge edge, uint32_t number) {
        return events_[edge == Edge::kForward ? 0 : 1][number];
    }

    Result<device::Event> own_event(Edge edge, uint32_t number) {
        auto& event = held(edge, number);
        if (!event) {
            GPURUN_ASSIGN(const device::Event made, device_.create_shared_event());
            GPURUN_ASSIGN(const device::EventHandle exported, device_.export_event(made));
            std::memcpy(handle(edge, number), exported.bytes.data(), exported.bytes.size());
            event = made;
        }
        return *event;
    }

    // None if no stream has ever signalled the edge. REQUIRES: the edge's number has been seen (acquire) above 0.
    Result<std::optional<device::Event>> event_of(Edge edge, uint32_t number) {
        auto& event = held(edge, number);
        if (!event && !mine(edge)) {
            device::EventHandle exported;
            std::memcpy(exported.bytes.data(), handle(edge, number), exported.bytes.size());
            if (exported.bytes == device::EventHandle{}.bytes)
                return std::optional<device::Event>();
            GPURUN_ASSIGN(const device::Event imported, device_.import_event(peer_, exported));
            event = imported;
        }
        return event;
    }

    device::Device& device_;
    platform::EventHandles* handles_;
    Side side_;
    int peer_;
    std::array<std::array<std::optional<device::Event>, kSlots>, 2> events_{};
};

} // namespace

std::unique_ptr<Fence> make_event_fence(device::Device& device, platform::FenceSlot* slots,
                                        platform::EventHandles* handles, Side side, int peer) {
    return std::make_unique<EventFence>(device, slots, handles, side, peer);
}

} // namespace gpurun::transfer
