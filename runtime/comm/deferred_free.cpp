#include "comm/deferred_free.hpp"

#include "comm/alarms.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/pull.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Quiescence;
using transfer::Resources;

DeferredFree::DeferredFree(Core& core, const Alarms& alarms) : core_(core), alarms_(alarms) {
    core.resources().try_quiescence = [this] {
        assume_engine_lock();
        return try_quiescence();
    };
}

bool DeferredFree::graphs_in_job() {
    for (const auto& each : core_.peers())
        graphs_in_job_ = graphs_in_job_ || each->channel().has_captured();
    return graphs_in_job_;
}

Quiescence DeferredFree::try_quiescence() {
    if (!graphs_in_job())
        return Quiescence(std::in_place);
    // A stream that waits for a peer may stand behind a graph of the peer's; so may an alarm's.
    bool held = alarms_.any_awaits_edge();
    for (const auto& each : core_.peers())
        each->for_each_held([&](auto&&...) { held = true; });
    if (held)
        return std::nullopt;
    device::Graphs* const graphs = core_.device().graphs();
    if (graphs == nullptr) // no graph of this rank's runs
        return Quiescence(std::in_place);
    std::unique_lock still = graphs->keep_graphs_still();
    return still ? Quiescence(std::move(still)) : std::nullopt;
}

Result<void> DeferredFree::now_or_later(base::FunctionRef<Result<void>()> now,
                                        base::FunctionRef<Result<void>()> later) {
    {
        const EngineLock lock(core_.mutex());
        if (graphs_in_job()) { // under the lock, so that no message gets between
            if (const Quiescence quiet = try_quiescence())
                return now();
            GPURUN_TRY(later());
            any_left_ = true;
            return {};
        }
    }
    return now();
}

Result<void> DeferredFree::free(const device::Buffer& buffer, void* pointer) {
    if (buffer.placement == device::Placement::kDevice && buffer.base == pointer) {
        const EngineLock lock(core_.mutex());
        forget(buffer);
    }
    device::Device& device = core_.device();
    const bool pinned = buffer.placement == device::Placement::kPinned;
    return now_or_later([&] { return pinned ? device.free_pinned(pointer) : device.free(pointer); },
                        [&] { return device.free_later(pointer); });
}

Result<void> DeferredFree::destroy(device::Graph graph) {
    device::Graphs& graphs = *core_.device().graphs();
    auto& end_by_ns = core_.resources().graphs_end_by_ns;
    return now_or_later(
        [&] {
            end_by_ns = platform::now_ns() + Resources::kGraphEndsWithinNs;
            return graphs.destroy_graph(graph);
        },
        [&] {
            end_by_ns = Resources::kGraphsLeft;
            return graphs.destroy_graph_later(graph);
        });
}

void DeferredFree::give_back() {
    if (!any_left_)
        return;
    const Quiescence quiet = try_quiescence();
    if (!quiet)
        return;
    any_left_ = false;
    auto& end_by_ns = core_.resources().graphs_end_by_ns;
    if (end_by_ns == Resources::kGraphsLeft)
        end_by_ns = platform::now_ns() + Resources::kGraphEndsWithinNs;
    core_.device().give_back();
}

void DeferredFree::forget(const device::Buffer& buffer) {
    const std::vector<bool> given = core_.resources().exports.forget(buffer.id);
    for (size_t peer = 0; peer < given.size(); ++peer) {
        transfer::Peer& to = *core_.peers()[peer];
        if (given[peer] && !to.lost())
            to.tell(transfer::Record(transfer::RecordKind::kNotice, transfer::PullPart::kProtocol)
                        .with(transfer::RevokedAllocation{buffer.id}));
    }
}

} // namespace gpurun::comm
