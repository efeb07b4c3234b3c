// A job that this process is a rank of: the session with whoever watches over it, and the engine that moves this rank's
// messages in it.
//
// Several can share a device. Each then has engine, segment and supervisor of its own; what they need of the device
// (streams, events, handles) is theirs alone, and what the device bounds they share (comm/process_engines.hpp).
#pragma once

#include "comm/engine.hpp"
#include "platform/death_watch.hpp"
#include "platform/job_session.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::api {

class World {
  public:
    struct Site {
        device::Device& device;
        const device::RunLog& runs; // of messages of graphs, for the trace
        comm::ProcessEngines& process;
        comm::Names names{}; // of what the program is given
        // Completes a wait report by what this rank's threads wait for in other jobs. Empty: they are in none.
        std::function<void(std::vector<platform::wait_report::Entry>&)> complete_report{};
    };
    // Publishes this rank, waits until all others have, and starts an engine over them. What `site` refers to outlives
    // this object, or is released with it (stuck()).
    static base::Result<std::unique_ptr<World>> open(const Site& site, const base::Settings& settings,
                                                     platform::JobSession session);
    World(const World&) = delete;
    ~World();

    comm::Engine& engine() { return *engine_; }
    platform::JobSession& session() { return *session_; }
    const comm::Communicator& all() const { return *all_; }  // the communicator of all its ranks
    const std::string& job() const { return settings_.job; } // its name, if gpurun did not start it
    const comm::Names& names() const { return site_.names; }
    // Of this rank, while there is an engine: what the settings ask to be reported at the end.
    std::string report();

    // At the end, in this order. Waits until all living ranks call it. kPeerLost if a message was cut short.
    base::Result<void> leave() { return engine_->leave(); }
    // After leave(): a stream is blocked for ever, so its engine and the device must not be destroyed.
    bool stuck() const { return stuck_; }
    void stop_engine();
    // Another world may have their numbers. REQUIRES stop_engine(), and not stuck().
    void forget_peers();
    // All that was this rank's is gone.
    void finish();

  private:
    World(const Site& site, const base::Settings& settings, platform::JobSession session);
    base::Result<void> start();
    base::Result<void> start_reporter();
    base::Result<void> start_death_watch();
    // The device knows a rank of this job by this number and its rank; those of two worlds differ.
    int first_peer() const { return static_cast<int>(site_.names.engine * platform::kMaxJobRanks); }
    // Far peers, by which way they are reached, and why: a line each.
    std::string fabric_report() const;

    const Site site_;
    base::Settings settings_; // what all ranks need alike, as rank 0 has it, once they are ready
    std::unique_ptr<platform::JobSession> session_;
    std::string fabric_;                            // by which ranks of other nodes are reached; empty: there are none
    std::unique_ptr<comm::Engine> engine_;          // before its session in destruction
    const comm::Communicator* all_ = nullptr;       // of the engine
    std::atomic<comm::Engine*> described_{nullptr}; // engine_, once it is there (release)
    std::unique_ptr<platform::Reporter> reporter_;  // goes before all that it describes
    std::unique_ptr<platform::DeathWatch> death_watch_;
    bool stuck_ = false;
};

} // namespace gpurun::api
