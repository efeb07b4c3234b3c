// Small messages out of this rank's mailbox: with others by one kernel, or alone.
#include "transfer/incoming.hpp"

#include "transfer/mailbox.hpp"

namespace gpurun::transfer {

using base::Result;

// Of a request, in a kernel with others: soon, by whoever has matched it.
Result<void> Incoming::share_kernel(Fence& fence, device::Mail mail) {
    GPURUN_TRY(note_source(fence, device::Stream{this})); // of no stream, until it is joined
    context_.places.give_back(kept_place_);
    shares_kernel_ = true;
    mail.times = trace_.times(context_.trace);
    GPURUN_ASSIGN(launch_, context_.mails.take(context_, {mail, operand_.address, bytes_}));
    drain(Awaited::edge_of(&fence, Edge::kBackward, slot_.slot, slot_.value));
    return {};
}

Result<void> Incoming::take_mail(uint64_t mail_bytes) {
    GPURUN_ASSIGN(Fence * fence, link_->in.fence());
    if (ending_ == Ending::kJoined && bytes_ != 0 && mail_bytes <= device::kSmallMailBytes && operand_.by_device()) {
        GPURUN_ASSIGN(const bool at_once, place_is_over());
        if (at_once)
            return share_kernel(*fence, context_.workspace.incoming(link_->peer, *fence, slot_, mail_bytes));
    }
    bool waits = false;
    if (!ends_in_stream()) {
        GPURUN_ASSIGN(const bool ready, fence->reached(Edge::kForward, slot_.slot, slot_.value));
        waits = !ready;
    }
    GPURUN_TRY(take_stream(waits));
    GPURUN_TRY(note_source(*fence, operand_.stream));
    if (bytes_ == 0 || !kernel_may_wait(*fence, 1))
        GPURUN_TRY(fence->await(Edge::kForward, slot_.slot, slot_.value, operand_.stream));
    if (bytes_ == 0) {
        GPURUN_TRY(fence->signal(Edge::kBackward, slot_.slot, slot_.value, operand_.stream));
        return leave_to_stream(*fence);
    }
    device::Mail mail = context_.workspace.incoming(link_->peer, *fence, slot_, mail_bytes);
    mail.ticket = context_.workspace.ticket(link_->peer, Role::kTarget, slot_.slot);
    mail.times = trace_.times(context_.trace);
    if (operand_.by_device()) {
        GPURUN_TRY(context_.device.take_mail(mail, operand_.address, bytes_, !ends_in_stream(), operand_.stream));
        return leave_to_stream(*fence);
    }
    GPURUN_ASSIGN(Landing::Buffer * landing, context_.landing.take(bytes_));
    GPURUN_TRY(context_.device.take_mail(mail, landing->data, bytes_, true, operand_.stream));
    if (operand_.elsewhere())
        GPURUN_TRY(context_.device.copy_elsewhere(operand_.address, landing->data, bytes_, operand_.stream));
    else
        GPURUN_TRY(
            context_.host_copies.enqueue(context_.device, operand_.stream, operand_.address, landing->data, bytes_));
    return end_behind(*landing);
}

} // namespace gpurun::transfer
