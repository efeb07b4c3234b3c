#include "api/world.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/known_threads.hpp"
#include "transfer/channel/fabric_port.hpp"
#include "transfer/channel/gpu_sharing.hpp"
#include "transfer/channel/open.hpp"

#include <utility>
#include <vector>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

using Channels = std::vector<std::unique_ptr<transfer::PeerChannel>>; // by rank

// Streams of two ranks are ordered by counters or by events, and both sides do it in the same way.
Result<void> check_order(const Channels& channels, bool by_events) {
    for (const auto& each : channels)
        if (each->facts().orders_by_events != by_events)
            return base::error(
                Status::kSetting,
                "this rank orders streams by {}, and rank {} by {}: run all ranks with GPURUN_FENCE=event",
                by_events ? "events" : "counters", each->peer().value, by_events ? "counters" : "events");
    return {};
}

// Of jobs that gpurun did not start, and of two that meet, each rank chooses its own.
Result<void> check_devices(const Channels& channels, device::Kind kind) {
    for (const auto& each : channels)
        if (each->facts().device.kind != kind)
            return base::error(Status::kDevice,
                               "this rank has {}, and rank {} has {}: give all ranks the same GPURUN_DEVICE (those of "
                               "both jobs, where two meet)",
                               kind == device::Kind::kEmulated ? "an emulated device" : "a GPU", each->peer().value,
                               kind == device::Kind::kEmulated ? "a GPU" : "an emulated device");
    return {};
}

// Each peer's device, with the descriptor of its memory.
Result<void> add_peers(device::Device& device, const Channels& channels, std::vector<platform::UniqueFd> descriptors) {
    for (const auto& each : channels)
        if (const uint32_t peer = each->peer().value; !each->to_self() && each->shares_memory())
            GPURUN_TRY(device.add_peer(each->device_peer(), each->facts().device, descriptors[peer].release()));
    return {};
}

// For people.
std::string name_of(const device::Info& device) {
    return device.pci_bus_id.empty() ? base::format("emulated device {}", device.identity.ordinal)
                                     : "GPU " + device.pci_bus_id;
}

} // namespace

World::World(const Site& site, const base::Settings& settings, platform::JobSession session)
    : site_(site), settings_(settings), session_(std::make_unique<platform::JobSession>(std::move(session))) {
    if (settings_.node_address.empty())
        settings_.node_address = session_->node_address();
}

World::~World() = default;

Result<std::unique_ptr<World>> World::open(const Site& site, const base::Settings& settings,
                                           platform::JobSession session) {
    std::unique_ptr<World> world(new World(site, settings, std::move(session)));
    if (auto started = world->start(); !started) {
        world->forget_peers(); // those that it has met so far
        return std::move(started).error();
    }
    return world;
}

Result<void> World::start() {
    const platform::JobSegment& job = session_->segment();
    const base::WorldRank self{session_->rank()};
    device::Device& device = site_.device;
    transfer::RankFacts facts;
    facts.orders_by_events = transfer::ordering_counters(device, settings_) == nullptr;
    facts.checks = settings_.check;
    facts.algorithms = settings_.algorithms;
    GPURUN_ASSIGN(transfer::Probe probe, transfer::Probe::publish(device, self.value, facts));
    GPURUN_ASSIGN(transfer::Workspace workspace,
                  transfer::Workspace::publish(device, settings_, transfer::WorkspaceRanks::of(job), facts));
    transfer::ChannelSite here{device, job, settings_, self, facts, first_peer()};
    GPURUN_TRY(transfer::publish_rank(here));
    GPURUN_ASSIGN(std::vector<platform::UniqueFd> peers,
                  session_->ready(device.shareable_fd(), settings_.single_copy, name_of(device.info())));
    GPURUN_ASSIGN(Channels channels, transfer::open_channels(here));
    if (here.fabric)
        fabric_ = here.fabric->provider();
    here.fabric.reset(); // its channels have it
    GPURUN_TRY(check_devices(channels, device.info().identity.kind));
    GPURUN_TRY(check_order(channels, facts.orders_by_events));
    // What all ranks need alike. Those of jobs that meet may differ.
    settings_.check = channels[0]->facts().checks;
    settings_.algorithms = channels[0]->facts().algorithms;
    GPURUN_TRY(start_reporter());
    GPURUN_TRY(add_peers(device, channels, std::move(peers)));
    GPURUN_TRY(start_death_watch());
    const bool takes_turns = transfer::takes_turns(job, settings_.mps, self.value);
    if (takes_turns)
        base::log(base::LogLevel::kInfo, "other ranks have the same device, and there is no MPS: they take turns");
    const uint32_t ranks_on_device = transfer::ranks_on_device(job, self.value);
    device.share_among(ranks_on_device);
    GPURUN_ASSIGN(engine_,
                  comm::Engine::start({.job = job,
                                       .self = self,
                                       .settings = settings_,
                                       .device = device,
                                       .probe = std::move(probe),
                                       .workspace = std::move(workspace),
                                       .trace = session_->trace().get(),
                                       .runs = site_.runs,
                                       .process = site_.process,
                                       .takes_turns = takes_turns,
                                       .ranks_on_device = ranks_on_device,
                                       .names = site_.names,
                                       .tell_other_nodes = [this](uint32_t steps) { session_->tell_steps(steps); }},
                                      std::move(channels)));
    described_.store(engine_.get(), std::memory_order_release);
    all_ = &engine_->communicators().world();
    job.rank(self.value).state.store(static_cast<uint32_t>(platform::RankState::kAlive), std::memory_order_release);
    return {};
}

// A rank can say how it stands from here on, before it has an engine.
Result<void> World::start_reporter() {
    if (session_->alone())
        return {};
    platform::know_this_thread();
    GPURUN_ASSIGN(reporter_, session_->listen([this](std::vector<platform::wait_report::Entry>& entries) {
        comm::Engine* const engine = described_.load(std::memory_order_acquire);
        platform::wait_report::End end;
        entries.clear();
        if (engine != nullptr)
            end = engine->wait_report().describe(entries);
        if (engine != nullptr && site_.complete_report)
            site_.complete_report(entries);
        return end;
    }));
    return {};
}

// A call that enqueues waits while its stream is full, and holds the engine's lock. If the stream waits for an event of
// a dead rank, it goes on only by somebody who needs no lock. Counters are poisoned by whoever watches over the job.
Result<void> World::start_death_watch() {
    const platform::JobSegment& job = session_->segment();
    if (job.size() == 1 || !site_.device.info().releases_events)
        return {};
    const auto release_the_dead = [this, &job] {
        for (uint32_t rank = 0; rank < job.size(); ++rank)
            if (rank != session_->rank() &&
                job.rank(rank).state.load(std::memory_order_acquire) ==
                    static_cast<uint32_t>(platform::RankState::kDead) &&
                !job.may_live(rank))
                site_.device.release_peer(first_peer() + static_cast<int>(rank));
    };
    GPURUN_ASSIGN(death_watch_, platform::DeathWatch::start(job, session_->rank(), release_the_dead));
    return {};
}

std::string World::report() {
    std::string text;
    if (settings_.report.paths)
        text = fabric_report() + engine_->traffic();
    if (settings_.report.loans)
        text += engine_->loans().report();
    if (settings_.report.collectives)
        text += engine_->schedules().report();
    return text;
}

std::string World::fabric_report() const {
    std::string text;
    const platform::JobSegment& job = session_->segment();
    const uint32_t self = session_->rank();
    for (uint32_t peer = 0; !fabric_.empty() && peer < job.size(); ++peer)
        if (job.rank(peer).node != job.rank(self).node)
            text += base::format("gpurun: rank {} reaches {} by: fabric ({}): rank {} is on another node\n", self, peer,
                                 fabric_, peer);
    return text;
}

void World::stop_engine() {
    reporter_.reset();
    death_watch_.reset();
    stuck_ = engine_->stuck();
    if (stuck_) {
        (void)engine_.release(); // on purpose: see stuck()
        return;
    }
    engine_.reset();
}

void World::forget_peers() {
    GPURUN_ASSERT(engine_ == nullptr && !stuck_);
    for (uint32_t rank = 0; rank < session_->segment().size(); ++rank)
        site_.device.forget_peer(first_peer() + static_cast<int>(rank));
}

void World::finish() {
    const platform::JobSegment& job = session_->segment();
    job.rank(session_->rank())
        .state.store(static_cast<uint32_t>(platform::RankState::kFinalized), std::memory_order_release);
    if (stuck_)
        (void)session_.release(); // alarms of the engine's may yet ring in its segment
}

} // namespace gpurun::api
