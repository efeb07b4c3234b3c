// Calls that wait for the rank's device: for a stream or an event of the program's, or for work that they enqueue
// themselves. They make progress meanwhile. Takes the engine lock.
#pragma once

#include "comm/background.hpp"
#include "comm/waiter.hpp"

namespace gpurun::comm {

class DeviceWaits {
  public:
    DeviceWaits(Core& core, Waiter& waiter, Alarms& alarms, PeerFailure& failure, Background& background)
        : core_(core), waiter_(waiter), alarms_(alarms), failure_(failure), background_(background) {}

    // kPeerLost if a message in the stream was cut short (said once a stream).
    base::Result<void> synchronize(device::Stream stream);
    base::Result<void> synchronize(device::Event event);
    // Calls `work`, under the lock, with an internal stream in which it enqueues something that waits for no peer; then
    // waits until that has run.
    base::Result<void> run_for_host(base::FunctionRef<base::Result<void>(device::Stream)> work);

  private:
    base::Result<void> wait_for(EngineLock& lock, const WaitReason& reason, device::Event event,
                                base::FunctionRef<bool()> is_enough) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Waiter& waiter_;
    Alarms& alarms_;
    PeerFailure& failure_;
    Background& background_;
};

} // namespace gpurun::comm
