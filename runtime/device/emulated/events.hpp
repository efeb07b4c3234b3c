// The events of one emulated device. An event is one word, its latest record (control.hpp), which lives here or,
// when shared, in the control area. Waiting means: load the record, then wait for that mark of that stream.
//
// A handle is a number that names one event for ever (handle_numbers.hpp), and is looked up here; any may be asked
// about. Any thread.
#pragma once

#include "device/emulated/control.hpp"
#include "device/emulated/handle_numbers.hpp"
#include "device/emulated/stream_queue.hpp"
#include "device/types.hpp"
#include "platform/wake.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace gpurun::device::emulated {

class Events {
  public:
    // `control`, this process's, must outlive this object.
    explicit Events(const Control& control) : control_(control) {}

    base::Result<Event> create();
    base::Result<Event> create_shared();
    // `control`, the exporter's, must outlive this object.
    base::Result<Event> import_event(const Control& control, uint32_t slot);
    base::Result<void> destroy(Event event);
    // kEvent unless the event is this process's and shared.
    base::Result<EventHandle> export_event(Event event);

    // The place in a graph where the event was recorded latest, if that was captured.
    struct Captured {
        std::shared_ptr<GraphBody> graph;
        size_t edge = 0;
    };
    base::Result<Captured> captured(Event event);
    // kEvent if it is none, or imported: only its owner records an event.
    base::Result<void> record(Event event, StreamQueue& queue);

    // The word to wait for, and until it reads what: the latest record at the time of the call.
    struct Target {
        std::atomic<uint64_t>* word = nullptr; // null: complete already
        uint64_t mark = 0;
        bool reached() const { return word == nullptr || platform::load_published(*word) >= mark; }
        // Not because the recorder's process has died and was released.
        bool truly_reached() const { return word == nullptr || (platform::load_published(*word) & ~kReleased) >= mark; }
    };
    base::Result<Target> latch(Event event);

  private:
    enum class Kind { kLocal, kShared, kImported };
    struct Entry {
        Kind kind;
        const Control* control;      // whose streams the record names
        std::atomic<uint64_t>* word; // the record; &own for local events
        uint32_t slot;               // of shared ones
        std::atomic<uint64_t> own{0};
        std::mutex captured_mutex; // guards the three
        bool was_captured = false;
        std::weak_ptr<GraphBody> graph; // an event keeps none alive
        size_t edge = 0;
        Entry(Kind entry_kind, const Control* of, std::atomic<uint64_t>* at, uint32_t number)
            : kind(entry_kind), control(of), word(at != nullptr ? at : &own), slot(number) {}
    };
    Event add(std::shared_ptr<Entry> entry);
    base::Result<std::shared_ptr<Entry>> find(Event event);

    const Control& control_;
    Slots slots_{kSharedEvents};
    std::shared_mutex mutex_; // guards events_
    std::unordered_map<Event, std::shared_ptr<Entry>, HashHandle> events_;
};

} // namespace gpurun::device::emulated
