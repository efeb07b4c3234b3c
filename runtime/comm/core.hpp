// What the parts of an engine share: the lock, the peers, the matcher, the tables, and the count of changes.
//
// Created first, destroyed last. Used under the engine lock, except for what never changes.
#pragma once

#include "comm/communicator_table.hpp"
#include "comm/engine_lock.hpp"
#include "comm/matcher.hpp"
#include "comm/process_engines.hpp"
#include "comm/request.hpp"
#include "platform/job_segment.hpp"
#include "transfer/memory/reach.hpp"
#include "transfer/peer.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace gpurun::comm {

// What an engine is made of. Peers may use the rank's probe and workspace until it has left the job.
struct RankParts {
    const platform::JobSegment& job; // of the rank's own record, and who else is there
    WorldRank self;
    const base::Settings& settings;
    device::Device& device;
    transfer::Probe probe;
    transfer::Workspace workspace;
    platform::TraceBuffer* trace; // null where nobody traces
    const device::RunLog& runs;
    ProcessEngines& process;
    bool takes_turns = false; // the device is shared without MPS
    uint32_t ranks_on_device = 1;
    Names names{}; // of what the program is given
    // Says to whoever watches over ranks on other nodes that this one has come to so many steps of gpurun_finalize().
    std::function<void(uint32_t steps)> tell_other_nodes{};
};

class Core {
  public:
    explicit Core(RankParts parts);

    base::YieldingMutex& mutex() { return mutex_; }
    transfer::Resources& resources() { return resources_; }
    device::Device& device() { return resources_.device; }
    const platform::JobSegment& job() const { return job_; }
    WorldRank self() const { return resources_.place.self; }
    uint32_t size() const { return resources_.place.ranks; }
    const Names& names() const { return names_; }
    ProcessEngines& process() { return process_; }
    platform::RankRecord& own_record() const { return job_.rank(self().value); }
    void tell_other_nodes(uint32_t steps) const {
        if (tell_other_nodes_)
            tell_other_nodes_(steps);
    }
    void notify_self(platform::Notify notify) const { job_.ring_doorbell(self().value, notify); }

    CommunicatorTable& communicators() { return communicators_; }
    const CommunicatorTable& communicators() const { return communicators_; }

    // ---- under the lock
    transfer::Peer& peer(WorldRank rank) GPURUN_REQUIRES(engine_lock) { return *peers_[rank.value]; }
    const std::vector<std::unique_ptr<transfer::Peer>>& peers() const GPURUN_REQUIRES(engine_lock) { return peers_; }
    // Whether the condition is true of some peer.
    template <typename Condition>
    bool any_peer(const Condition& condition) const GPURUN_REQUIRES(engine_lock) {
        return std::any_of(peers_.begin(), peers_.end(), [&](const auto& each) { return condition(*each); });
    }
    void add_peer(std::unique_ptr<transfer::PeerChannel> channel) GPURUN_REQUIRES(engine_lock);
    Matcher& matcher() GPURUN_REQUIRES(engine_lock) { return matcher_; }
    RequestTable& requests() GPURUN_REQUIRES(engine_lock) { return requests_; }
    const RequestTable& requests() const GPURUN_REQUIRES(engine_lock) { return requests_; }
    // Without the lock: whether any memory is lent, or exclusively.
    bool lends() const { return requests_.lent().any(); }
    bool lends_exclusively() const { return requests_.lent().any_exclusive(); }

    // Something has changed for which a thread may wait, and may sleep.
    void note_change() GPURUN_REQUIRES(engine_lock) {
        ++resources_.changes;
        if (sleeping_ > 0)
            notify_self(platform::Notify::kIfSleeping);
    }
    // The same for a small message that has come, and for which nobody sleeps.
    void count_change() GPURUN_REQUIRES(engine_lock) { ++resources_.changes; }
    uint64_t changes() const GPURUN_REQUIRES(engine_lock) { return resources_.changes; }
    void note_sleeping(int threads) GPURUN_REQUIRES(engine_lock) { sleeping_ += threads; }

    // At the end: first the peers are dropped, then what they could use of this rank.
    void drop_peers() GPURUN_REQUIRES(engine_lock) { peers_.clear(); }
    void drop_parts() GPURUN_REQUIRES(engine_lock);

  private:
    base::YieldingMutex mutex_;
    const platform::JobSegment& job_;
    const Names names_;
    ProcessEngines& process_;
    const std::function<void(uint32_t steps)> tell_other_nodes_;
    const ProcessEngines::Place place_{process_};
    std::optional<transfer::Workspace> workspace_;
    std::optional<transfer::Probe> probe_;
    transfer::Resources resources_;
    std::vector<std::unique_ptr<transfer::Peer>> peers_;
    Matcher matcher_;
    CommunicatorTable communicators_; // before what uses them
    RequestTable requests_;
    int sleeping_ = 0; // threads that wait
};

} // namespace gpurun::comm
