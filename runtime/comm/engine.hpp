// A rank's engine: everything that moves its messages. Each part owns its state; the engine only creates the parts, in
// the order in which they need each other, and gives access to them.
#pragma once

#include "comm/call_groups.hpp"
#include "comm/communicators.hpp"
#include "comm/device_waits.hpp"
#include "comm/leaving.hpp"
#include "comm/loans.hpp"
#include "comm/requests.hpp"
#include "comm/schedules.hpp"
#include "comm/unregistration.hpp"
#include "comm/wait_report.hpp"

namespace gpurun::comm {

// Fills in the header of a trace: the names of routes and collectives, and the contexts that its events refer to.
void describe_messages(platform::TraceHeader& header);

class Engine {
  public:
    // `channels`: one to each rank of the job, this one included, by rank.
    static base::Result<std::unique_ptr<Engine>> start(RankParts parts,
                                                       std::vector<std::unique_ptr<transfer::PeerChannel>> channels);
    ~Engine();

    transfer::Resources& resources() { return core_.resources(); }
    WorldRank self() const { return core_.self(); }
    Messages& messages() { return messages_; }
    Requests& requests() { return requests_; }
    Loans& loans() { return loans_; }
    Unregistration& unregistration() { return unregistration_; }
    CallGroups& call_groups() { return call_groups_; }
    Schedules& schedules() { return schedules_; }
    Communicators& communicators() { return communicators_; }
    DeviceWaits& device_waits() { return device_waits_; }
    DeferredFree& memory() { return deferred_; }
    WaitReport& wait_report() { return report_; }

    // Moves what can be moved, and frees the memory whose freeing was deferred. False if none was freed.
    bool reclaim();
    // Leaves the job. kPeerLost if some message was cut short.
    base::Result<void> leave();
    // After leave(), with GPURUN_CHECK=1: what the program has left, a line each.
    std::string leftovers() const { return leftovers_.report(); }
    // After leave(): a stream is blocked for ever. Destroying the engine or its device would wait for it.
    bool stuck() const { return failure_.stuck(); }
    // What the next engine with this number is to have as Names::first_use.
    uint32_t next_use();
    // How many messages and bytes went where: a line for each peer, direction and route.
    std::string traffic();

  private:
    explicit Engine(RankParts parts);

    size_t reserved_ = 0; // streams
    Core core_;
    Alarms alarms_;
    DeferredFree deferred_;
    OrphanedLoans orphaned_;
    PeerFailure failure_;
    Batch batch_;
    Progress progress_;
    Waiter waiter_;
    Background background_;
    Messages messages_;
    Requests requests_;
    CallGroups call_groups_;
    Schedules schedules_;
    Communicators communicators_;
    DeviceWaits device_waits_;
    Loans loans_;
    Unregistration unregistration_;
    Leftovers leftovers_;
    Leaving leaving_;
    WaitReport report_;
};

} // namespace gpurun::comm
