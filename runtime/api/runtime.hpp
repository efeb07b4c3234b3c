// The one runtime object of a process: everything that lives between gpurun_init() and gpurun_finalize().
#pragma once

#include "api/given_handles.hpp"
#include "api/host_pages.hpp"
#include "api/joint_worlds.hpp"
#include "api/operations.hpp"
#include "api/own_settings.hpp"
#include "api/persistent_calls.hpp"
#include "api/rank_groups.hpp"
#include "api/world.hpp"

#include <memory>
#include <optional>

namespace gpurun::api {

class Runtime {
  public:
    // `as`, if not null: as whom a process joins that gpurun did not start.
    static base::Result<std::unique_ptr<Runtime>> start(const Membership* as);
    // Leaves the job and prints the report. The object is of no use afterwards.
    base::Result<void> stop();
    ~Runtime();

    // Of the job that the process was started in, or has joined.
    comm::Engine& engine() { return home_->engine(); }
    // The one that gave the program a request, a loan or a probed message with this name; where none is left, the one
    // above, which knows no such name.
    comm::Engine& engine_of(uint64_t name) {
        if (comm::Names::engine_of(name) == 0) [[likely]]
            return home_->engine();
        World* const joint = joint_.of_name(name);
        return (joint != nullptr ? *joint : *home_).engine();
    }
    // Calls `visit` with the engine of each job that the process is in, until one gives an error.
    template <typename Visit>
    base::Result<void> for_each_engine(const Visit& visit) {
        GPURUN_TRY(visit(home_->engine()));
        if (joint_.empty()) [[likely]]
            return {};
        return joint_.for_each([&](World& each) { return visit(each.engine()); });
    }
    device::Device& device() { return *device_; }
    const comm::Communicator& world() const { return *world_; }
    platform::JobSession& session() { return home_->session(); }
    const base::Settings& settings() const { return settings_; }
    JointWorlds& joint_worlds() { return joint_; }
    uint32_t engines() { return process_.share().engines.load(std::memory_order_relaxed); }
    // Joins the joint job that the settings name, together with all its other ranks.
    base::Result<std::unique_ptr<World>> open_joint(const base::Settings& settings, const comm::Names& names);
    // Leaves it, together with those of its ranks that live. kPeerLost if a message was cut short; it is left all the
    // same.
    base::Result<void> leave_joint(std::unique_ptr<World> world);
    HostPages& host_pages() { return *host_pages_; }
    GivenHandles<device::Stream>& given_streams() { return given_streams_; }
    GivenHandles<device::Event>& given_events() { return given_events_; }
    RankGroups& rank_groups() { return rank_groups_; }
    Operations& operations() { return operations_; }
    PersistentCalls& persistent_calls() { return persistent_calls_; }

  private:
    Runtime() = default;
    base::Result<void> leave_all_joint();

    base::Settings settings_;
    device::RunLog runs_;    // of messages of graphs, for the trace: what the device runs points there
    device::RunLog no_runs_; // the same of joint jobs, which nobody traces
    std::unique_ptr<device::Device> device_;
    std::unique_ptr<HostPages> host_pages_;
    GivenHandles<device::Stream> given_streams_;
    GivenHandles<device::Event> given_events_;
    RankGroups rank_groups_;
    Operations operations_;
    PersistentCalls persistent_calls_;
    comm::ProcessEngines process_;
    JointWorlds joint_;
    std::unique_ptr<World> home_;               // the job that it was started in, or has joined; before its device in
                                                // destruction
    const comm::Communicator* world_ = nullptr; // of all ranks there
};

} // namespace gpurun::api
