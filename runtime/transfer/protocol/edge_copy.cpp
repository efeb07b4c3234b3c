#include "transfer/protocol/edge_copy.hpp"

#include "transfer/receive.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

using base::Result;

Result<void> EdgeCopy::copy(Receive& receive, const From& from, const Slot& slot, bool source_awaits) {
    from_ = from;
    slot_ = slot;
    const Operand& into = receive.operand();
    const bool all_by_cpu = into.by_cpu() && from.in_host_memory;
    if (all_by_cpu || (!into.on_stream() && receive.bytes() == 0)) {
        GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
        GPURUN_ASSIGN(const bool ready, fence->reached_alive(Edge::kForward, slot_));
        if (ready)
            return copy_by_cpu(receive);
        by_cpu_ = !source_awaits;
    }
    return by_cpu_ ? Result<void>() : copy_in_stream(receive);
}

Activity EdgeCopy::activity(const Receive&) const { return by_cpu_ ? Activity::kWaiting : Activity::kIdle; }

std::optional<CompletionPoint> EdgeCopy::blocked_on(const Receive& receive) const {
    if (!by_cpu_)
        return std::nullopt;
    return CompletionPoint::at(*receive.source().channel().open_fence(Direction::kIn), Edge::kForward, slot_);
}

Result<void> EdgeCopy::advance(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool ready, fence->reached_alive(Edge::kForward, slot_));
    return ready ? copy_by_cpu(receive) : Result<void>();
}

Result<void> EdgeCopy::copy_by_cpu(Receive& receive) {
    by_cpu_ = false;
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    if (receive.bytes() != 0)
        std::memcpy(receive.operand().address, from_.address, receive.bytes());
    fence->signal_now(Edge::kBackward, slot_);
    receive.source().channel().notify(info_of(slot_.slots).announced ? Notify::kAlways : Notify::kIfSleeping);
    receive.finish();
    return {};
}

Result<bool> EdgeCopy::is_complete_without_peer(const Receive& receive, const CompletionPoint&) const {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool cut_short, fence->cut_short(Edge::kForward, slot_));
    return !cut_short;
}

Result<bool> EdgeCopy::complete_into(Receive& receive, device::Stream stream) {
    if (!receive.source().lost())
        receive.source().awaiting_forward.complete_into(slot_, stream);
    return false;
}

// ------------------------------------------------------------------------------------------------- in a stream

// With a copy engine, the stream has to wait before the copy and to signal behind it; a kernel does both itself.
bool EdgeCopy::suits_kernel(Receive& receive) const {
    const Operand& into = receive.operand();
    const Resources& resources = receive.resources();
    const size_t most =
        receive.is_of_collective() ? resources.collective_copy_bytes() : resources.settings.kernel_copy_bytes;
    const auto placement = into.where.placement;
    const bool reached =
        placement == device::Placement::kDevice || (placement == device::Placement::kPinned && into.on_stream());
    return reached && from_.by_device && receive.bytes() != 0 && receive.bytes() <= most &&
           resources.fenced_copies != nullptr;
}

// A large copy that has nothing to wait for goes into the streams for bulk copies.
Result<bool> EdgeCopy::take_bulk(Receive& receive, Fence& fence, bool ready) {
    const size_t most_by_kernel =
        begins_early_ ? FusedMessages::kLongestPull : receive.resources().settings.kernel_copy_bytes;
    const bool large = receive.bytes() > most_by_kernel && !from_.in_host_memory && !receive.source().to_self();
    if (!ready || !large || receive.ends_in_stream() || receive.operand().where.placement != device::Placement::kDevice)
        return false;
    GPURUN_ASSIGN(const bool at_once, receive.is_marker_passed());
    if (!at_once)
        return false;
    GPURUN_TRY(receive.depend_on(fence, slot_, std::nullopt));
    GPURUN_TRY(receive.work().take_bulk());
    return true;
}

Result<void> EdgeCopy::copy_in_stream(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool ready, fence->reached(Edge::kForward, slot_));
    if (receive.ends_together() && suits_kernel(receive) && receive.resources().exchanges.has_mails())
        return pull_in_exchange(receive, *fence, ready);
    const bool waits_for_nothing = from_.in_host_order && ready && !receive.operand().on_stream();
    if ((waits_for_nothing || begins_early_) && suits_kernel(receive) &&
        receive.bytes() <= FusedMessages::kLongestPull && !receive.source().to_self() &&
        receive.resources().exchanges.has_mails())
        return pull_fused(receive, *fence);
    GPURUN_ASSIGN(const bool in_bulk, take_bulk(receive, *fence, ready));
    if (in_bulk)
        return copy_by_engine(receive, *fence, true);
    GPURUN_TRY(receive.take_stream(!ready));
    GPURUN_TRY(receive.depend_on(*fence, slot_, receive.operand().stream));
    const bool suits = suits_kernel(receive);
    const uint32_t blocks = std::min(device::copy_blocks(receive.bytes()), receive.resources().pools.kernels.blocks());
    const bool kernel_waits = !ready && suits && receive.kernel_may_spin(*fence, slot_, blocks);
    // A copy that need not wait goes by a copy engine, unless it is traced: a kernel can say when it ran.
    const bool is_traced = receive.trace().records() && receive.operand().on_stream();
    if (kernel_waits || (is_traced && suits))
        return copy_by_kernel(receive, *fence, ready, kernel_waits);
    return copy_by_engine(receive, *fence, ready);
}

device::FencedCopy EdgeCopy::fenced_copy(Receive& receive, Fence& fence, bool kernel_waits) const {
    const WorkspaceView& workspace = receive.resources().workspace.view();
    const uint32_t peer = receive.source().rank().value;
    device::FencedCopy copy;
    copy.destination = receive.operand().address;
    copy.source = from_.address;
    copy.bytes = receive.bytes();
    if (kernel_waits) // ranks that share a GPU have fewer blocks each, and wait no longer for that
        copy.blocks = receive.resources().pools.kernels.blocks();
    copy.before = kernel_waits ? &fence.counter(Edge::kForward, slot_) : nullptr;
    copy.after = &fence.counter(Edge::kBackward, slot_);
    copy.value = slot_.value;
    copy.ticket = workspace.ticket(peer, Side::kTarget, slot_);
    copy.gate = workspace.gate(peer, slot_);
    copy.times = receive.trace().times(receive.resources().trace);
    return copy;
}

// In a kernel with other messages of calls that are made together.
Result<void> EdgeCopy::pull_in_exchange(Receive& receive, Fence& fence, bool ready) {
    const device::Stream stream = receive.operand().stream;
    GPURUN_TRY(receive.note_dependence(fence, slot_, stream));
    receive.resources().exchanges.pull(fenced_copy(receive, fence, !ready), stream);
    return receive.end_behind(fence, Edge::kBackward, slot_, stream);
}

Result<void> EdgeCopy::pull_fused(Receive& receive, Fence& fence) {
    GPURUN_TRY(receive.note_dependence(fence, slot_, std::nullopt));
    fused_ = true;
    GPURUN_TRY(receive.resources().fused.pull(fenced_copy(receive, fence, false)));
    receive.end_at(CompletionPoint::at(fence, Edge::kBackward, slot_));
    return {};
}

Result<void> EdgeCopy::copy_by_kernel(Receive& receive, Fence& fence, bool ready, bool kernel_waits) {
    const device::Stream stream = receive.operand().stream;
    const device::FencedCopy copy = fenced_copy(receive, fence, kernel_waits);
    if (!ready && !kernel_waits) {
        GPURUN_TRY(write_time(receive.device(), stream, copy.times, &device::Times::began));
        GPURUN_TRY(fence.await(Edge::kForward, slot_, stream));
    }
    GPURUN_TRY(receive.resources().fenced_copies->copy_fenced(copy, stream));
    return receive.end_behind(fence, Edge::kBackward, slot_, stream);
}

// Or by a host function.
Result<void> EdgeCopy::copy_by_engine(Receive& receive, Fence& fence, bool ready) {
    device::Device& device = receive.device();
    const Operand& into = receive.operand();
    const uint64_t bytes = receive.bytes();
    device::Times* const times = bytes != 0 ? receive.stream_times() : nullptr;
    if (!ready) {
        GPURUN_TRY(write_time(device, into.stream, times, &device::Times::began));
        GPURUN_TRY(fence.await(Edge::kForward, slot_, into.stream));
    }
    GPURUN_TRY(write_time(device, into.stream, times, &device::Times::moving));
    if (from_.in_host_memory)
        GPURUN_TRY(receive.copy_from_host(from_.address, bytes));
    else if (bytes != 0)
        GPURUN_TRY(device.copy(into.address, from_.address, bytes, into.stream));
    GPURUN_TRY(receive.work().order_signals());
    const device::Stream behind = receive.work().signals();
    GPURUN_TRY(fence.signal(Edge::kBackward, slot_, behind));
    GPURUN_TRY(write_time(device, behind, times, &device::Times::done));
    return receive.end_behind(fence, Edge::kBackward, slot_, behind);
}

} // namespace gpurun::transfer
