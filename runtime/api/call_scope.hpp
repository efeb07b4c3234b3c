// What every function that may wait, start a message or call the device enters first: who asks which call a thread is
// in finds it (base/current_call.hpp), the trace of the rank has a slice for it, and tools that read NVTX a range.
//
// Where nobody traces and no tool is attached, the last two are one pointer that is null. Calls that gpurun makes
// of its own are part of the program's call.
#pragma once

#include "api/ranges.hpp"
#include "base/current_call.hpp"
#include "platform/trace_buffer.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <tuple>

namespace gpurun::api {

// Calls in the trace of the rank.
class CallTrace {
  public:
    explicit CallTrace(std::shared_ptr<platform::TraceBuffer> buffer) : buffer_(std::move(buffer)) {}

    // Null if there is no room.
    platform::TraceEvent* begin(const char* name, const base::CallArguments& arguments);
    static void end(platform::TraceEvent& event);
    // A call that found out only at its end that calls are recorded: gpurun_init().
    void add(const char* name, int64_t begin_ns);

  private:
    platform::TraceEvent* new_event(const char* name);
    // Of a name in the header. Each is written there once, under the lock.
    uint8_t number_of(const char* name);

    static constexpr size_t kNames = std::tuple_size_v<decltype(platform::TraceHeader::calls)>;

    const std::shared_ptr<platform::TraceBuffer> buffer_;
    std::mutex naming_;
    // Stored (release) after the header's text, read (acquire) by every call.
    std::array<std::atomic<const char*>, kNames> names_{};
};

// Who sees calls: null where nobody does. Set in gpurun_init(), and there until the process ends, since a call may end
// after gpurun_finalize(). Stored (release) once it is ready, read (acquire) by every call.
struct CallObservers {
    std::unique_ptr<CallTrace> trace; // null: nobody traces
    bool ranges = false;              // a tool reads NVTX
};
extern constinit std::atomic<CallObservers*> call_observers;

class CallScope {
  public:
    // `name` has static storage duration: __func__.
    explicit CallScope(const char* name, const base::CallArguments& arguments = {}) : scope_(name) {
        if (CallObservers* const observers = call_observers.load(std::memory_order_acquire)) [[unlikely]]
            begin(*observers, name, arguments);
    }
    ~CallScope() {
        if (observed_) [[unlikely]]
            end();
    }
    // The slice of this call in the trace, for a call that is one message: the message has no other. Null: it has none.
    platform::TraceEvent* event() const { return observed_ ? event_ : nullptr; }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

  private:
    // Apart from the code of those who do not trace, but not cold: what is cold lies in pages that nothing else uses.
    [[gnu::noinline]] void begin(CallObservers& observers, const char* name, const base::CallArguments& arguments);
    [[gnu::noinline]] void end();

    base::CallScope scope_;
    bool observed_ = false;
    bool range_;                  // with observed_, as is the next
    platform::TraceEvent* event_; // null: there was no room
};

} // namespace gpurun::api
