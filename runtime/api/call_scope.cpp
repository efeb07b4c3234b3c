#include "api/call_scope.hpp"

#include "comm/datatype.hpp"

#include <cstring>

namespace gpurun::api {

using base::CallArguments;
using platform::TraceEvent;

constinit std::atomic<CallObservers*> call_observers{nullptr};

void CallScope::begin(CallObservers& observers, const char* name, const CallArguments& arguments) {
    observed_ = scope_.outermost();
    if (!observed_)
        return;
    range_ = observers.ranges;
    if (range_)
        begin_range(name, arguments);
    event_ = observers.trace != nullptr ? observers.trace->begin(name, arguments) : nullptr;
}

void CallScope::end() {
    if (event_ != nullptr)
        CallTrace::end(*event_);
    if (range_)
        end_range();
}

TraceEvent* CallTrace::new_event(const char* name) {
    TraceEvent* event = buffer_->begin();
    if (event == nullptr)
        return nullptr;
    event->call = number_of(name);
    event->peer = CallArguments::kNone;
    event->tag = CallArguments::kNone;
    return event;
}

TraceEvent* CallTrace::begin(const char* name, const CallArguments& arguments) {
    TraceEvent* event = new_event(name);
    if (event == nullptr)
        return nullptr;
    event->peer = arguments.peer;
    event->tag = arguments.tag;
    event->ordinal = arguments.count;
    if (arguments.type != CallArguments::kNone)
        if (const auto bytes = comm::message_bytes(arguments.count, arguments.type)) {
            event->bytes = bytes.value();
            event->how.store(platform::trace_flags::kHasBytes, std::memory_order_relaxed);
        }
    platform::TraceBuffer::publish(*event, platform::TraceKind::kCall);
    return event;
}

void CallTrace::end(TraceEvent& event) { event.end_ns.store(platform::now_ns(), std::memory_order_relaxed); }

void CallTrace::add(const char* name, int64_t begin_ns) {
    TraceEvent* event = new_event(name);
    if (event == nullptr)
        return;
    event->end_ns.store(event->begin_ns, std::memory_order_relaxed);
    event->begin_ns = begin_ns;
    platform::TraceBuffer::publish(*event, platform::TraceKind::kCall);
}

uint8_t CallTrace::number_of(const char* name) {
    static_assert((kNames & (kNames - 1)) == 0 && kNames <= UINT8_MAX);
    const size_t first = (reinterpret_cast<uintptr_t>(name) * 0x9e3779b97f4a7c15) >> 57; // Fibonacci hashing to 7 bits
    static_assert(kNames == 1u << 7);
    const auto place_of = [&] {
        size_t place = first;
        while (true) {
            const char* there = names_[place].load(std::memory_order_acquire);
            if (there == name || there == nullptr)
                return place;
            place = (place + 1) % kNames;
        }
    };
    size_t place = place_of();
    if (names_[place].load(std::memory_order_relaxed) == name)
        return static_cast<uint8_t>(place);
    const std::lock_guard lock(naming_);
    place = place_of(); // another thread may have been here
    auto& text = buffer_->header().calls[place];
    std::strncpy(text.data(), name, text.size() - 1);
    names_[place].store(name, std::memory_order_release);
    return static_cast<uint8_t>(place);
}

} // namespace gpurun::api
