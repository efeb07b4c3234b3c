// Asks peers to unmap an allocation of this rank, and waits until they have. Takes the engine lock.
#pragma once

#include "comm/background.hpp"
#include "comm/waiter.hpp"

#include <vector>

namespace gpurun::comm {

class Unregistration {
  public:
    Unregistration(Core& core, Waiter& waiter, Alarms& alarms, Background& background)
        : core_(core), waiter_(waiter), alarms_(alarms), background_(background) {}

    // Until no living peer has it mapped. REQUIRES buffer.exportable. A negative time is no bound. kTimeout names who
    // has it.
    base::Result<void> run(const device::Buffer& buffer, int timeout_ms);

  private:
    // Who has it. Asks those that have not been asked yet.
    std::vector<WorldRank> ask(const device::Buffer& buffer) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Waiter& waiter_;
    Alarms& alarms_;
    Background& background_;
};

} // namespace gpurun::comm
