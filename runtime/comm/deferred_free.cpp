#include "comm/deferred_free.hpp"

#include "comm/alarms.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/pull.hpp"

#include <mutex>

namespace gpurun::comm {

using base::Result;
using transfer::ProcessShare;
using transfer::Quiescence;

DeferredFree::DeferredFree(Core& core, const Alarms& alarms) : core_(core), alarms_(alarms) {
    core.resources().try_quiescence = [this] {
        assume_engine_lock();
        return try_quiescence();
    };
}

bool DeferredFree::graphs_in_job() {
    assume_engine_lock(); // peers come before enter_process(), and go after leave_process()
    if (!graphs_in_job_.load(std::memory_order_relaxed))
        graphs_in_job_.store(core_.any_peer([](const transfer::Peer& each) { return each.channel().has_captured(); }),
                             std::memory_order_relaxed);
    return graphs_in_job_.load(std::memory_order_relaxed);
}

bool DeferredFree::graphs_in_process() {
    return graphs_in_job() || core_.process().any_other(*this, [](DeferredFree& each) { return each.graphs_in_job(); });
}

// A stream that waits for a peer may stand behind a graph of the peer's; so may an alarm's.
bool DeferredFree::holds() {
    bool held = alarms_.any_awaits_edge();
    for (const auto& each : core_.peers())
        each->for_each_held([&](auto&&...) { held = true; });
    return held;
}

bool DeferredFree::may_hold() {
    if (!core_.mutex().try_lock())
        return true;
    const std::lock_guard lock(core_.mutex(), std::adopt_lock);
    assume_engine_lock();
    return holds();
}

Quiescence DeferredFree::try_quiescence() {
    if (!graphs_in_process())
        return Quiescence(std::in_place);
    if (holds() || core_.process().any_other(*this, [](DeferredFree& each) { return each.may_hold(); }))
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
        if (graphs_in_process()) { // under the lock, so that no message gets between
            if (const Quiescence quiet = try_quiescence())
                return now();
            GPURUN_TRY(later());
            any_left_ = true;
            return {};
        }
    }
    return now();
}

void DeferredFree::tell_freed(const device::Buffer& buffer) {
    const EngineLock lock(core_.mutex());
    forget(buffer);
}

Result<void> DeferredFree::free(const device::Buffer& buffer, void* pointer) {
    if (buffer.base == pointer)
        tell_freed(buffer);
    device::Device& device = core_.device();
    const bool pinned = buffer.placement == device::Placement::kPinned;
    return now_or_later([&] { return pinned ? device.free_pinned(pointer) : device.free(pointer); },
                        [&] { return device.free_later(pointer); });
}

Result<void> DeferredFree::destroy(device::Graph graph) {
    device::Graphs& graphs = *core_.device().graphs();
    auto& end_by_ns = core_.process().share().graphs_end_by_ns;
    return now_or_later(
        [&] {
            end_by_ns = platform::now_ns() + ProcessShare::kGraphEndsWithinNs;
            return graphs.destroy_graph(graph);
        },
        [&] {
            end_by_ns = ProcessShare::kGraphsLeft;
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
    auto& end_by_ns = core_.process().share().graphs_end_by_ns;
    if (end_by_ns == ProcessShare::kGraphsLeft)
        end_by_ns = platform::now_ns() + ProcessShare::kGraphEndsWithinNs;
    core_.device().give_back();
}

void DeferredFree::forget(const device::Buffer& buffer) {
    const std::vector<bool> given = core_.resources().exports.forget(buffer.id);
    for (size_t peer = 0; peer < given.size(); ++peer) {
        transfer::Peer& to = *core_.peers()[peer];
        if (given[peer] && !to.lost())
            to.tell(transfer::Record(transfer::RecordKind::kNotice, transfer::PullPart::kProtocol)
                        .with(transfer::AllocationNotice{transfer::AllocationNotice::What::kFreed, buffer.id}));
    }
}

} // namespace gpurun::comm
