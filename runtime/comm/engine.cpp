#include "comm/engine.hpp"

#include "base/format.hpp"
#include "device/capabilities.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/protocols.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::comm {

using base::Result;

void describe_messages(platform::TraceHeader& header) {
    const auto name = [](auto& text, const char* from) { std::strncpy(text.data(), from, text.size() - 1); };
    transfer::protocols().for_each_route(
        [&](transfer::Route route, const transfer::ProtocolInfo&, const transfer::RouteText& names) {
            GPURUN_ASSERT(route.number() < header.paths.size());
            name(header.paths[route.number()], names.path);
            name(header.reasons[route.number()], names.reason);
        });
    header.copy_context = kCopyContext;
    header.collective_contexts = kCollectiveContexts;
    header.world = kWorldId;
}

Result<std::unique_ptr<Engine>> Engine::start(RankParts parts,
                                              std::vector<std::unique_ptr<transfer::PeerChannel>> channels) {
    std::unique_ptr<Engine> engine(new Engine(std::move(parts)));
    Core& core = engine->core_;
    const EngineLock lock(core.mutex());
    engine->reserved_ = core.resources().pools.streams.limits().all();
    GPURUN_TRY(core.device().reserve_urgent_streams(engine->reserved_));
    for (auto& channel : channels)
        core.add_peer(std::move(channel));
    if (core.job().here() <= transfer::MailboxPart::kMostOpened)
        for (const auto& each : core.peers())
            (void)each->part<transfer::MailboxPart>().open();
    engine->deferred_.enter_process();
    return engine;
}

Engine::Engine(RankParts parts)
    : core_(std::move(parts)), alarms_(core_), deferred_(core_, alarms_), orphaned_(core_), failure_(core_, orphaned_),
      batch_(core_), progress_(core_, batch_, failure_, deferred_, orphaned_), waiter_(core_, progress_, alarms_),
      background_(core_, progress_, batch_, alarms_, core_.resources().settings.progress_thread),
      messages_(core_, progress_, batch_, waiter_, alarms_, failure_, background_),
      requests_(core_, progress_, batch_, waiter_, alarms_, messages_, background_),
      call_groups_(core_, batch_, messages_, requests_, background_),
      schedules_(core_, progress_, batch_, waiter_, alarms_, messages_, failure_, background_),
      communicators_(core_, progress_, schedules_), device_waits_(core_, waiter_, alarms_, failure_, background_),
      loans_(core_, waiter_, alarms_, messages_, requests_, failure_, orphaned_, background_),
      unregistration_(core_, waiter_, alarms_, background_), leftovers_(core_, loans_),
      leaving_(core_, progress_, batch_, waiter_, alarms_, failure_, background_, loans_, leftovers_, schedules_),
      report_(core_, waiter_) {}

Engine::~Engine() {
    EngineLock lock(core_.mutex());
    background_.stop(lock);
    deferred_.leave_process();
    core_.device().release_reserved_streams(reserved_);
}

Result<void> Engine::leave() {
    deferred_.leave_process();
    return leaving_.run();
}

bool Engine::reclaim() {
    const EngineLock lock(core_.mutex());
    const bool any_left = deferred_.any_left();
    (void)progress_.run();
    return any_left && !deferred_.any_left();
}

uint32_t Engine::next_use() {
    const uint32_t of_loans = loans_.most_uses();
    const EngineLock lock(core_.mutex());
    return std::max({of_loans, core_.requests().most_uses(), core_.matcher().most_uses(),
                     core_.communicators().most_uses()}) +
           1;
}

std::string Engine::traffic() {
    const EngineLock lock(core_.mutex());
    std::string text;
    for (const device::CapabilityInfo& each : device::capabilities())
        if (!each.is_in(core_.device()))
            text += base::format("gpurun: rank {}: its device lacks '{}': {}\n", self().value, each.name, each.without);
    const auto lines = [&](const transfer::Tally& tally, const char* direction, WorldRank peer) {
        transfer::protocols().for_each_route(
            [&](transfer::Route route, const transfer::ProtocolInfo&, const transfer::RouteText& names) {
                if (const auto entry = tally.at(route); entry.messages != 0)
                    text += base::format("gpurun: rank {} {} {}: {} ({}): {} messages, {} bytes\n", self().value,
                                         direction, peer.value, names.path, names.reason, entry.messages, entry.bytes);
            });
    };
    for (const auto& each : core_.peers()) {
        lines(each->sent, "to", each->rank());
        lines(each->received, "from", each->rank());
    }
    const auto& mails = core_.resources().fused;
    if (mails.sent().mails + mails.received().mails != 0)
        text += base::format("gpurun: rank {}: small messages that shared kernels: {} sent by {}, {} received by {}\n",
                             self().value, mails.sent().mails, mails.sent().launches, mails.received().mails,
                             mails.received().launches);
    if (const Series::Count& series = batch_.series().count(); series.together + series.mistakes != 0)
        text += base::format("gpurun: rank {}: requests that were started and completed in a row moved together: {} "
                             "times; {} times they were held for that in vain\n",
                             self().value, series.together, series.mistakes);
    return text;
}

} // namespace gpurun::comm
