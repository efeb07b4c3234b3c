#include "api/runtime.hpp"

#include "api/errors.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "device/open.hpp"
#include "platform/known_threads.hpp"
#include "transfer/channel/gpu_sharing.hpp"
#include "transfer/channel/open.hpp"
#include "transfer/message_trace.hpp"

#include <gpurun/version.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

using Channels = std::vector<std::unique_ptr<transfer::PeerChannel>>; // by rank

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;

// Ranks that share an emulated device share its memory.
size_t emulated_part(const base::Settings& settings) {
    const size_t slash = settings.device.find('/');
    const int devices = slash == std::string::npos ? 1 : std::atoi(settings.device.c_str() + slash + 1);
    const int ranks = devices > 0 ? (settings.local_size + devices - 1) / devices : 1;
    const size_t part = settings.emulated_memory_bytes / static_cast<size_t>(ranks);
    return part & ~(platform::page_size() - 1);
}

device::Placement placement_of(base::OrderedMemory ordered) {
    switch (ordered) {
    case base::OrderedMemory::kOwn: return device::Placement::kDevice;
    case base::OrderedMemory::kOther: return device::Placement::kElsewhere;
    case base::OrderedMemory::kManaged: return device::Placement::kManaged;
    }
    return device::Placement::kDevice;
}

Result<std::unique_ptr<device::Device>> open_device(const base::Settings& settings) {
    device::Options options;
    options.selector = settings.device;
    options.emulated_memory_bytes = emulated_part(settings);
    options.emulated_peer_access = settings.emulated_peer_access;
    options.emulated_seed = settings.emulated_seed;
    options.emulated_delay_us = settings.emulated_delay_us;
    options.emulated_lose = settings.emulated_lose;
    options.emulated_ordered = placement_of(settings.emulated_ordered);
    options.emulated_capabilities = settings.emulated_capabilities;
    GPURUN_ASSIGN(std::unique_ptr<device::Device> device, device::open_device(options));
    if (settings.fence == base::FenceKind::kCounter && device->counters() == nullptr)
        return base::error(Status::kSetting,
                           "GPURUN_FENCE=counter: {} lacks the capability 'counters'; unset it, or set it to event",
                           device->info().name);
    return device;
}

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

// Each peer's device, with the descriptor of its memory.
Result<void> add_peers(device::Device& device, const Channels& channels, std::vector<platform::UniqueFd> descriptors) {
    for (const auto& each : channels)
        if (const uint32_t peer = each->peer().value; !each->to_self())
            GPURUN_TRY(device.add_peer(static_cast<int>(peer), each->facts().device, descriptors[peer].release()));
    return {};
}

} // namespace

Result<std::unique_ptr<Runtime>> Runtime::start() {
    std::unique_ptr<Runtime> runtime(new Runtime);
    GPURUN_ASSIGN(runtime->settings_, base::read_settings([](const char* name) { return std::getenv(name); }));
    const base::Settings& settings = runtime->settings_;
    configure_errors(settings);
    GPURUN_ASSIGN(platform::JobSession session, platform::JobSession::connect(settings, kVersion));
    runtime->session_ = std::make_unique<platform::JobSession>(std::move(session));
    const platform::JobSegment& job = runtime->session_->segment();
    const uint32_t rank = runtime->session_->rank();
    GPURUN_ASSIGN(runtime->device_, open_device(settings));
    device::Device& device = *runtime->device_;
    runtime->host_pages_ = std::make_unique<HostPages>(device);
    GPURUN_TRY(device.make_current());
    if (const auto& trace = runtime->session_->trace())
        runtime->runs_ = transfer::time_messages(*trace, device);
    transfer::RankFacts facts;
    facts.orders_by_events = transfer::ordering_counters(device, settings) == nullptr;
    GPURUN_ASSIGN(transfer::Probe probe, transfer::Probe::publish(device, rank, facts));
    GPURUN_ASSIGN(transfer::Workspace workspace, transfer::Workspace::publish(device, settings, job.size(), facts));
    const transfer::ChannelSite here{device, job, settings, base::WorldRank{rank}, facts};
    GPURUN_TRY(transfer::publish_rank(here));
    GPURUN_ASSIGN(std::vector<platform::UniqueFd> peers,
                  runtime->session_->ready(device.shareable_fd(), settings.single_copy));
    GPURUN_ASSIGN(Channels channels, transfer::open_channels(here));
    GPURUN_TRY(check_order(channels, facts.orders_by_events));
    GPURUN_TRY(runtime->start_reporter());
    GPURUN_TRY(add_peers(device, channels, std::move(peers)));
    GPURUN_TRY(runtime->start_engine(std::move(probe), std::move(workspace), std::move(channels)));
    runtime->described_.store(runtime->engine_.get(), std::memory_order_release);
    if (runtime->session_->trace() != nullptr)
        comm::describe_messages(runtime->session_->trace()->header());
    runtime->world_ = &runtime->engine_->communicators().world();
    job.rank(rank).state.store(static_cast<uint32_t>(platform::RankState::kAlive), std::memory_order_release);
    return runtime;
}

Result<void> Runtime::start_engine(transfer::Probe probe, transfer::Workspace workspace,
                                   std::vector<std::unique_ptr<transfer::PeerChannel>> channels) {
    const platform::JobSegment& job = session_->segment();
    const base::WorldRank self{session_->rank()};
    const bool takes_turns = transfer::takes_turns(job, settings_.mps, self.value);
    if (takes_turns)
        base::log(base::LogLevel::kInfo, "other ranks have the same device, and there is no MPS: they take turns");
    GPURUN_ASSIGN(engine_, comm::Engine::start({.job = job,
                                                .self = self,
                                                .settings = settings_,
                                                .device = *device_,
                                                .probe = std::move(probe),
                                                .workspace = std::move(workspace),
                                                .trace = session_->trace().get(),
                                                .runs = runs_,
                                                .takes_turns = takes_turns,
                                                .ranks_on_device = transfer::ranks_on_device(job, self.value)},
                                               std::move(channels)));
    return {};
}

// A rank can say how it stands from here on, before it has an engine.
Result<void> Runtime::start_reporter() {
    if (session_->alone())
        return {};
    platform::know_this_thread();
    GPURUN_ASSIGN(reporter_, session_->listen([this](std::vector<platform::wait_report::Entry>& entries) {
        comm::Engine* const engine = described_.load(std::memory_order_acquire);
        if (engine != nullptr)
            return engine->wait_report().describe(entries);
        entries.clear();
        return platform::wait_report::End{};
    }));
    return {};
}

Result<void> Runtime::stop() {
    Result<void> result;
    std::string report;
    if (settings_.report.paths)
        report = engine_->traffic();
    if (settings_.report.loans)
        report += engine_->loans().report();
    result = engine_->leave();
    if (const auto& trace = session_->trace(); trace && !engine_->stuck())
        transfer::note_last_times(*trace, *device_, runs_);
    reporter_.reset();
    const bool stuck = engine_->stuck();
    if (stuck) {
        (void)engine_.release(); // on purpose: see stuck()
        (void)device_.release();
    }
    engine_.reset();
    device_.reset();
    std::fwrite(report.data(), 1, report.size(), stderr);
    const platform::JobSegment& job = session_->segment();
    job.rank(session_->rank())
        .state.store(static_cast<uint32_t>(platform::RankState::kFinalized), std::memory_order_release);
    if (stuck)
        (void)session_.release(); // alarms of the engine's may yet ring in its segment
    return result;
}

Runtime::~Runtime() = default;

} // namespace gpurun::api
