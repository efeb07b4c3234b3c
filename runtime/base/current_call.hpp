// Which function of the C API a thread is in.
//
// Every function that may wait, start a message or call the device enters a CallScope, which is a few stores into
// memory of its thread. What calls itself through the API, and what a call is made of, stays the call that the program
// made. Whoever has to say what a thread does reads this_call().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpurun::base {

// What the program passed, before anything was checked.
struct CallArguments {
    static constexpr int kNone = INT32_MIN; // no rank, wildcard or tag, valid or not, that anybody would pass

    int peer = kNone; // destination, source or root
    int tag = kNone;  // with two of them, of a sendrecv, peer and tag are the send's
    int type = kNone; // of `count` elements; without it, `count` is a number of requests or bytes
    size_t count = 0;
};

struct CurrentCall {
    // Null outside of calls. Relaxed: another thread may read it at any time, and publishes nothing by it.
    std::atomic<const char*> name{nullptr};
    std::atomic<uint64_t> number{0}; // of calls so far, for who looks twice: relaxed, too
    // When the last one that started a request of a series was about to end. For the thread itself.
    int64_t left_ns = 0;

    constexpr CurrentCall() = default;
};

namespace detail {
inline constinit thread_local CurrentCall current_call;
}

// The calling thread's.
inline CurrentCall& this_call() { return detail::current_call; }

class CallScope {
  public:
    // `name` has static storage duration: __func__.
    explicit CallScope(const char* name) : call_(this_call()) {
        if (call_.name.load(std::memory_order_relaxed) != nullptr)
            return;
        outermost_ = true;
        call_.number.store(call_.number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        call_.name.store(name, std::memory_order_relaxed);
    }
    ~CallScope() {
        if (outermost_)
            call_.name.store(nullptr, std::memory_order_relaxed);
    }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

    // Whether the program made this call, and not another call of gpurun.
    bool outermost() const { return outermost_; }

  private:
    CurrentCall& call_;
    bool outermost_ = false;
};

} // namespace gpurun::base
