// The one runtime object of a process: everything that lives between gpurun_init() and gpurun_finalize().
#pragma once

#include "api/given_handles.hpp"
#include "api/host_pages.hpp"
#include "api/operations.hpp"
#include "api/persistent_calls.hpp"
#include "api/rank_groups.hpp"
#include "comm/engine.hpp"
#include "platform/job_session.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace gpurun::api {

class Runtime {
  public:
    static base::Result<std::unique_ptr<Runtime>> start();
    // Leaves the job and prints the report. The object is of no use afterwards.
    base::Result<void> stop();
    ~Runtime();

    comm::Engine& engine() { return *engine_; }
    device::Device& device() { return *device_; }
    const comm::Communicator& world() const { return *world_; }
    platform::JobSession& session() { return *session_; }
    HostPages& host_pages() { return *host_pages_; }
    GivenHandles<device::Stream>& given_streams() { return given_streams_; }
    GivenHandles<device::Event>& given_events() { return given_events_; }
    RankGroups& rank_groups() { return rank_groups_; }
    Operations& operations() { return operations_; }
    PersistentCalls& persistent_calls() { return persistent_calls_; }

  private:
    Runtime() = default;
    base::Result<void> start_reporter();
    base::Result<void> start_engine(transfer::Probe probe, transfer::Workspace workspace,
                                    std::vector<std::unique_ptr<transfer::PeerChannel>> channels);

    base::Settings settings_;
    std::unique_ptr<platform::JobSession> session_;
    device::RunLog runs_; // of messages of graphs, for the trace: what the device runs points there
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<HostPages> host_pages_;
    GivenHandles<device::Stream> given_streams_;
    GivenHandles<device::Event> given_events_;
    RankGroups rank_groups_;
    Operations operations_;
    PersistentCalls persistent_calls_;
    std::unique_ptr<comm::Engine> engine_;          // before its device and its session in destruction
    const comm::Communicator* world_ = nullptr;     // of the engine
    std::atomic<comm::Engine*> described_{nullptr}; // engine_, once it is there (release)
    std::unique_ptr<platform::Reporter> reporter_;  // goes before all that it describes
};

} // namespace gpurun::api
