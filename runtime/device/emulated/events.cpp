#include "device/emulated/events.hpp"

#include "base/format.hpp"
#include "device/emulated/handles.hpp"

#include <mutex>

namespace gpurun::device::emulated {

using base::Status;

Event Events::add(std::shared_ptr<Entry> entry) {
    const auto event = new_handle<Event>();
    const std::unique_lock lock(mutex_);
    events_.emplace(event, std::move(entry));
    return event;
}

base::Result<std::shared_ptr<Events::Entry>> Events::find(Event event) {
    const std::shared_lock lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end())
        return base::error(Status::kEvent, "{} is not an event of this device, or was destroyed", event.address());
    return found->second;
}

base::Result<Event> Events::create() { return add(std::make_shared<Entry>(Kind::kLocal, &control_, nullptr, 0u)); }

base::Result<Event> Events::create_shared() {
    GPURUN_ASSIGN(const uint32_t slot, slots_.claim("shared events"));
    std::atomic<uint64_t>* word = control_.event(slot);
    word->store(0, std::memory_order_release); // the slot may have had an event before: this one has no record
    return add(std::make_shared<Entry>(Kind::kShared, &control_, word, slot));
}

base::Result<Event> Events::import_event(const Control& control, uint32_t slot) {
    std::atomic<uint64_t>* word = control.event(slot);
    if (word == nullptr)
        return base::error(Status::kEvent, "an event handle is damaged");
    return add(std::make_shared<Entry>(Kind::kImported, &control, word, slot));
}

base::Result<void> Events::destroy(Event event) {
    std::shared_ptr<Entry> entry;
    {
        const std::unique_lock lock(mutex_);
        const auto found = events_.find(event);
        if (found == events_.end())
            return base::error(Status::kEvent, "{} is not an event of this device, or was destroyed before",
                               event.address());
        entry = std::move(found->second);
        events_.erase(found);
    }
    // Waits that latched it name a stream's mark, not the event.
    if (entry->kind == Kind::kShared)
        slots_.release(entry->slot);
    return {};
}

base::Result<EventHandle> Events::export_event(Event event) {
    GPURUN_ASSIGN(const std::shared_ptr<Entry> entry, find(event));
    if (entry->kind != Kind::kShared)
        return base::error(Status::kEvent, "this event was not created as a shared one and cannot be exported");
    return pack<EventHandleBytes, EventHandle>({kEventHandleMagic, entry->slot, control_.token()});
}

base::Result<void> Events::record(Event event, StreamQueue& queue) {
    GPURUN_ASSIGN(const std::shared_ptr<Entry> entry, find(event));
    if (entry->kind == Kind::kImported)
        return base::error(Status::kEvent, "only the process that created an event can record it");
    Captured captured{queue.captured()};
    if (captured.graph)
        captured.edge = queue.mark_captured();
    const std::lock_guard lock(entry->captured_mutex);
    entry->was_captured = captured.graph != nullptr;
    entry->graph = captured.graph;
    entry->edge = captured.edge;
    if (captured.graph)
        return {};
    GPURUN_ASSIGN(const Record record, queue.mark());
    // Release: pairs with latch(), here or in a peer.
    entry->word->store(record.packed(), std::memory_order_release);
    return {};
}

base::Result<Events::Captured> Events::captured(Event event) {
    GPURUN_ASSIGN(const std::shared_ptr<Entry> entry, find(event));
    const std::lock_guard lock(entry->captured_mutex);
    return Captured{entry->graph.lock(), entry->edge};
}

base::Result<Events::Target> Events::latch(Event event) {
    GPURUN_ASSIGN(const std::shared_ptr<Entry> entry, find(event));
    {
        const std::lock_guard lock(entry->captured_mutex);
        if (entry->was_captured)
            return base::error(Status::kEvent,
                               "the event was recorded in a captured stream, and never completes: record "
                               "it again outside of the capture");
    }
    const Record record = Record::unpack(entry->word->load(std::memory_order_acquire));
    if (record.mark == 0)
        return Target{};
    return Target{entry->control->progress(record.stream), record.mark};
}

} // namespace gpurun::device::emulated
