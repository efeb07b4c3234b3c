// Frees memory and destroys graphs: at once, or, where that could wait for a run of a graph that waits for a peer,
// later (transfer/memory/quiescence.hpp). free() and destroy() take the engine lock; the rest is used under it.
#pragma once

#include "base/function_ref.hpp"
#include "comm/core.hpp"
#include "device/capability/graphs.hpp"

#include <atomic>

namespace gpurun::comm {

class Alarms;

class DeferredFree {
  public:
    DeferredFree(Core& core, const Alarms& alarms);

    // Device memory, or pinned memory. Peers that may have it mapped are told.
    base::Result<void> free(const device::Buffer& buffer, void* pointer);
    base::Result<void> destroy(device::Graph graph); // REQUIRES: the device has graphs
    // Frees what was deferred, if it can be freed now.
    void give_back() GPURUN_REQUIRES(engine_lock);
    bool any_left() const GPURUN_REQUIRES(engine_lock) { return any_left_; }
    // Peers that may have the allocation mapped are told that it is freed, by another engine of the process.
    void tell_freed(const device::Buffer& buffer);
    // From when all peers are there, until they are left.
    void enter_process() { core_.process().enter(*this); }
    void leave_process() { core_.process().leave(*this); }

  private:
    bool graphs_in_job(); // with messages. Any thread, while it has entered the process
    bool graphs_in_process();
    bool holds() GPURUN_REQUIRES(engine_lock); // a stream, until a peer has come
    bool may_hold();                           // the same for another engine, without its lock
    transfer::Quiescence try_quiescence() GPURUN_REQUIRES(engine_lock);
    void forget(const device::Buffer& buffer) GPURUN_REQUIRES(engine_lock);
    base::Result<void> now_or_later(base::FunctionRef<base::Result<void>()> now,
                                    base::FunctionRef<base::Result<void>()> later);

    Core& core_;
    const Alarms& alarms_;
    std::atomic<bool> graphs_in_job_{false}; // some rank has captured a message; never false again. Relaxed
    bool any_left_ = false;                  // something is deferred (Device::give_back())
};

} // namespace gpurun::comm
