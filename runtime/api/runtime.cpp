#include "api/runtime.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "platform/known_threads.hpp"
#include "transfer/message_trace.hpp"
#include "transfer/turns.hpp"

#include <gpurun/version.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

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
    return device::open_device(options);
}

} // namespace

Result<std::unique_ptr<Runtime>> Runtime::start() {
    std::unique_ptr<Runtime> runtime(new Runtime);
    GPURUN_ASSIGN(runtime->settings_, base::read_settings([](const char* name) { return std::getenv(name); }));
    const base::Settings& settings = runtime->settings_;
    base::configure_log(static_cast<base::LogLevel>(settings.log_level), settings.size > 1 ? settings.rank : -1);
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
    platform::RankRecord& record = job.rank(rank);
    GPURUN_ASSIGN(transfer::Probe probe, transfer::Probe::publish(device, record, rank));
    GPURUN_ASSIGN(transfer::Workspace workspace, transfer::Workspace::publish(device, settings, record, job.size()));
    GPURUN_ASSIGN(std::vector<platform::UniqueFd> peers,
                  runtime->session_->ready(device.shareable_fd(), settings.single_copy));
    GPURUN_TRY(runtime->start_reporter());
    for (uint32_t peer = 0; peer < job.size(); ++peer)
        if (peer != rank)
            GPURUN_TRY(device.add_peer(static_cast<int>(peer), transfer::peer_identity(job.rank(peer)),
                                       peers[peer].release()));
    if (transfer::takes_turns(job, settings, rank))
        base::log(base::LogLevel::kInfo, "other ranks have the same device, and there is no MPS: they take turns");
    GPURUN_ASSIGN(runtime->engine_,
                  comm::Engine::start(device, job, settings, rank, std::move(probe), std::move(workspace),
                                      runtime->session_->trace().get(), runtime->runs_));
    runtime->described_.store(runtime->engine_.get(), std::memory_order_release);
    if (runtime->session_->trace() != nullptr)
        comm::describe_messages(runtime->session_->trace()->header());
    runtime->world_ = comm::Communicator{comm::kWorldId, static_cast<int>(rank), static_cast<int>(job.size())};
    record.state.store(static_cast<uint32_t>(platform::RankState::kAlive), std::memory_order_release);
    return runtime;
}

// A rank can say how it stands from here on, before it has an engine.
Result<void> Runtime::start_reporter() {
    if (session_->alone())
        return {};
    platform::know_this_thread();
    GPURUN_ASSIGN(reporter_, session_->listen([this](std::vector<platform::standing::Entry>& entries) {
        comm::Engine* const engine = described_.load(std::memory_order_acquire);
        if (engine != nullptr)
            return engine->describe(entries);
        entries.clear();
        return platform::standing::End{};
    }));
    return {};
}

Result<void> Runtime::stop() {
    Result<void> result;
    std::string report;
    if (settings_.report_paths)
        report = engine_->report();
    result = engine_->close();
    if (const auto& trace = session_->trace(); trace && !engine_->stuck())
        transfer::note_last_times(*trace, *device_, runs_);
    reporter_.reset();
    if (engine_->stuck()) {
        (void)engine_.release(); // on purpose: see stuck()
        (void)device_.release();
    }
    engine_.reset();
    device_.reset();
    std::fwrite(report.data(), 1, report.size(), stderr);
    const platform::JobSegment& job = session_->segment();
    job.rank(session_->rank())
        .state.store(static_cast<uint32_t>(platform::RankState::kFinalized), std::memory_order_release);
    return result;
}

Runtime::~Runtime() = default;

} // namespace gpurun::api
