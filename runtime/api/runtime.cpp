#include "api/runtime.hpp"

#include "api/errors.hpp"
#include "base/current_call.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "device/open.hpp"
#include "platform/quiet_thread.hpp"
#include "transfer/message_trace.hpp"

#include <gpurun/version.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

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
    options.auto_device = settings.auto_device;
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

} // namespace

Result<std::unique_ptr<Runtime>> Runtime::start(const Membership* as) {
    std::unique_ptr<Runtime> runtime(new Runtime);
    GPURUN_ASSIGN(runtime->settings_, own_settings(as));
    const base::Settings& settings = runtime->settings_;
    configure_errors(settings);
    GPURUN_ASSIGN(platform::JobSession session, platform::JobSession::connect(settings, kVersion));
    GPURUN_ASSIGN(runtime->device_, open_device(settings));
    device::Device& device = *runtime->device_;
    runtime->host_pages_ = std::make_unique<HostPages>(device);
    GPURUN_TRY(device.make_current());
    const std::shared_ptr<platform::TraceBuffer> trace = session.trace();
    if (trace)
        runtime->runs_ = transfer::time_messages(*trace, device);
    World::Site site{device, runtime->runs_, runtime->process_};
    site.complete_report = [&joint = runtime->joint_](std::vector<platform::wait_report::Entry>& entries) {
        static_cast<void>(joint.for_each([&](World& each) {
            each.engine().wait_report().name_waits(entries, each.job());
            return Result<void>();
        }));
    };
    GPURUN_ASSIGN(runtime->home_, World::open(site, settings, std::move(session)));
    if (trace)
        comm::describe_messages(trace->header());
    runtime->world_ = &runtime->home_->all();
    return runtime;
}

Result<std::unique_ptr<World>> Runtime::open_joint(const base::Settings& settings, const comm::Names& names) {
    GPURUN_ASSIGN(platform::JobSession session, platform::JobSession::connect(settings, kVersion));
    return World::open({*device_, no_runs_, process_, names}, settings, std::move(session));
}

Result<void> Runtime::leave_joint(std::unique_ptr<World> world) {
    std::string report = world->report();
    Result<void> result = world->leave();
    report += world->engine().leftovers();
    if (!report.empty())
        std::fprintf(stderr, "gpurun: rank %u leaves the joint job %s as its rank %u:\n%s", session().rank(),
                     world->job().c_str(), world->session().rank(), report.c_str());
    comm::Names next = world->names();
    next.first_use = world->engine().next_use();
    world->stop_engine();
    if (world->stuck()) { // its number is not given again: streams of the device wait for its peers for ever
        world->finish();
        return result;
    }
    world->forget_peers();
    world->finish();
    world.reset();
    joint_.give_back(next);
    return result;
}

namespace {

// One that is left by a thread of its own.
struct Parting {
    Runtime* runtime;
    std::unique_ptr<World> world;
    Result<void> result;

    static void* run(void* parting) {
        auto& self = *static_cast<Parting*>(parting);
        const base::CallScope call("gpurun_finalize");
        self.result = self.runtime->device().make_current();
        auto left = self.runtime->leave_joint(std::move(self.world));
        if (self.result)
            self.result = std::move(left);
        return nullptr;
    }
};

} // namespace

// All at the same time: other ranks may leave them in another order.
Result<void> Runtime::leave_all_joint() {
    Result<void> result;
    std::vector<std::unique_ptr<World>> worlds = joint_.take_all();
    std::deque<Parting> partings;
    std::vector<platform::QuietThread> threads;
    for (std::unique_ptr<World>& each : worlds) {
        Parting& parting = partings.emplace_back(Parting{this, std::move(each), {}});
        auto thread = platform::start_quiet_thread(Parting::run, &parting, "the thread that leaves a joint job",
                                                   platform::kUsualStack);
        if (thread)
            threads.push_back(*thread);
        else // one after the other, then
            (void)Parting::run(&parting);
    }
    for (const platform::QuietThread each : threads)
        platform::join_quiet_thread(each);
    for (Parting& each : partings)
        if (result)
            result = std::move(each.result);
    return result;
}

Result<void> Runtime::stop() {
    Result<void> left = leave_all_joint();
    comm::Engine& engine = home_->engine();
    std::string report = home_->report();
    Result<void> result = home_->leave();
    report += engine.leftovers();
    if (const auto& trace = home_->session().trace(); trace && !engine.stuck())
        transfer::note_last_times(*trace, *device_, runs_);
    home_->stop_engine();
    if (home_->stuck())
        (void)device_.release(); // on purpose: see stuck()
    device_.reset();
    std::fwrite(report.data(), 1, report.size(), stderr);
    home_->finish();
    return result ? std::move(left) : std::move(result);
}

Runtime::~Runtime() = default;

} // namespace gpurun::api
