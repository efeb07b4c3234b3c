// Small messages into the target's mailbox: with others by one kernel, or alone.
#include "transfer/outgoing.hpp"

#include "transfer/mailbox.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

// In the host's order a copy engine is faster than two kernels, and the call waits in any case.
bool Outgoing::mail_fits() const {
    const base::Settings& settings = context_.settings;
    const size_t largest =
        operand_.on_stream ? settings.mail_bytes : std::min(settings.mail_bytes, settings.device_eager_bytes);
    return envelope_.bytes != 0 && envelope_.bytes <= largest && !operand_.by_cpu() && operand_.by_device() &&
           !link_.to_self && settings.path == base::PathChoice::kAuto && link_.open_outbox();
}

// With others, in no stream of the user's: nothing there stands before it.
Result<bool> Outgoing::can_share_now() {
    if (!is_shareable() || !operand_.on_stream)
        return is_shareable();
    return kept_place_ ? context_.places.is_over_for_send(*kept_place_) : Result<bool>(false);
}

Result<std::optional<SlotValue>> Outgoing::take_mail_slot(Fence& fence) {
    if (is_small_mail()) {
        GPURUN_ASSIGN(const std::optional<SlotValue> small, link_.small_mail_slots.take(fence));
        if (small)
            return small;
    }
    return link_.mail_slots.take(fence);
}

// The record goes first, so that both sides launch their kernels at the same time. The target's may then wait for one
// that is not enqueued yet; but it will be, before this rank's lock is free for anything else, and all that stands
// before it in its stream waits only for what was published earlier.
Result<bool> Outgoing::post_mail(const SlotValue& slot) {
    slot_ = slot;
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    device::Mail mail = link_.outbox.outgoing(*fence, slot_, envelope_.bytes);
    mail.ticket = context_.workspace.ticket(link_.peer, Role::kSource, slot_.slot);
    GPURUN_ASSIGN(shares_kernel_, can_share_now());
    if (shares_kernel_) {
        if (!push_slot({Path::kMailbox, Reason::kSmall}))
            return false;
        context_.places.give_back(kept_place_);
        mail.times = trace_.times(context_.trace);
        GPURUN_ASSIGN(launch_, context_.mails.put(context_, {mail, operand_.address}));
        leave_to_stream(*fence);
        return true;
    }
    GPURUN_TRY(take_stream(false));
    if (!push_slot({Path::kMailbox, Reason::kSmall}))
        return false;
    note_stream();
    mail.times = trace_.times(context_.trace);
    if (auto put = context_.device.put_mail(mail, operand_.address, operand_.stream); !put) {
        // The device has failed, and with it this rank. Its peer must not wait for the mail.
        fence->signal_now(Edge::kForward, slot_.slot, platform::kPoison);
        return std::move(put).error();
    }
    leave_to_stream(*fence);
    return true;
}

} // namespace gpurun::transfer
