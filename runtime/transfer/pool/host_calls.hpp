// Work on host memory that a stream has done by host functions: copies, and reductions. Keeps their arguments, and uses
// them again.
//
// Used under the engine lock, except run(), which a stream's host thread calls.
#pragma once

#include "base/reduction.hpp"
#include "device/device.hpp"

#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace gpurun::transfer {

template <typename Work>
class HostCalls {
  public:
    explicit HostCalls(device::Device& device) : device_(device) {}

    // Enqueues work() in `stream`, which is not captured.
    base::Result<void> enqueue(device::Stream stream, const Work& work) {
        Call* const call = take();
        *call = Call{work, this};
        auto enqueued = device_.call_host(stream, run, call);
        if (!enqueued)
            give_back(call);
        return enqueued;
    }

  private:
    struct Call {
        Work work;
        HostCalls* home;
    };
    static void run(void* argument) {
        auto* const call = static_cast<Call*>(argument);
        call->work();
        call->home->give_back(call);
    }
    Call* take() {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) {
            idle_.reserve(all_.size() + 1);
            idle_.push_back(&all_.emplace_back());
        }
        Call* const call = idle_.back();
        idle_.pop_back();
        return call;
    }
    void give_back(Call* call) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(call);
    }

    device::Device& device_;
    std::mutex mutex_;
    std::deque<Call> all_;
    std::vector<Call*> idle_; // has room for all, so that run() never allocates
};

struct HostCopy {
    void* destination = nullptr;
    const void* source = nullptr;
    size_t bytes = 0;

    void operator()() const { std::memcpy(destination, source, bytes); }
};

struct HostReduction {
    base::Reduction reduction;
    size_t count = 0;
    void* result = nullptr;
    std::array<const void*, base::kMostOperands> operands{};
    size_t operands_given = 0;

    void operator()() const { base::reduce(reduction, count, result, std::span(operands).first(operands_given)); }
};

} // namespace gpurun::transfer
