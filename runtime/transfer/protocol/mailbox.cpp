#include "transfer/protocol/mailbox.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"
#include "transfer/protocol/exchanged_sends.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr Route kByMailbox{MailboxPart::kProtocol, 0};

bool is_small(uint64_t bytes) { return bytes <= device::kSmallMailBytes; }

// The longest that goes into a mailbox from a stream.
size_t largest_from_stream(const Resources& resources) {
    return std::min(resources.settings.mail_bytes, large_mail_bytes(resources.workspace.ranks_here()));
}

// For kernels of their own, or of exchanges.
device::Mail mail_to(const Resources& resources, const Peer& target, Fence& fence, const Slot& slot, size_t bytes) {
    device::Mail mail = target.part<MailboxPart>().workspace().mail(resources.place.self.value, fence, slot, bytes);
    mail.ticket = resources.workspace.view().ticket(target.rank().value, Side::kSource, slot);
    return mail;
}
device::Mail mail_from(const Resources& resources, const Peer& source, Fence& fence, const Slot& slot, size_t bytes) {
    device::Mail mail = resources.workspace.view().mail(source.rank().value, fence, slot, bytes);
    mail.ticket = resources.workspace.view().ticket(source.rank().value, Side::kTarget, slot);
    return mail;
}

} // namespace

// ----------------------------------------------------------------------------------------------------- the part

bool MailboxPart::open() {
    if (std::exchange(tried_, true))
        return workspace_.has_value();
    const RankFacts& facts = peer_.channel().facts();
    if (device_ == nullptr || peer_.to_self() || !facts.workspace || resources_.settings.mail_bytes == 0 ||
        resources_.counters == nullptr || facts.takes_turns || !is_direct(peer_.memory().reach()))
        return false;
    if (auto mapped = map(*facts.workspace); !mapped)
        base::log(base::LogLevel::kWarn, "rank {}'s mailbox cannot be used ({}): small messages are staged",
                  peer_.rank().value, mapped.error().detail);
    return workspace_.has_value();
}

Result<void> MailboxPart::map(const device::MemoryHandle& handle) {
    device::Device& device = resources_.device;
    const uint32_t self = resources_.place.self.value;
    GPURUN_ASSIGN(void* const imported, device.import_memory(peer_.channel().device_peer(), handle));
    const WorkspaceView view(static_cast<std::byte*>(imported), resources_.workspace.view().ranks());
    auto works = can_write(device, resources_.pools.streams, self, view.mailbox(self));
    if (works && *works) {
        workspace_ = view;
        return {};
    }
    GPURUN_TRY(device.close_memory(imported));
    if (!works)
        return std::move(works).error();
    return base::Error{base::Status::kDevice, "what was written there came back changed"};
}

uint64_t MailboxPart::room_in(const Slot& slot) const {
    return slot.slots == SlotClass::kSmallMail ? device::kSmallMailBytes
           : slot.slots == SlotClass::kMail    ? kMailBytes
                                               : large_mail_bytes(resources_.workspace.ranks_here());
}

Result<std::optional<Slot>> MailboxPart::take_slot(Fence& fence, uint64_t bytes, bool soon) {
    constexpr int64_t kSoonNs = 20'000; // as a call takes where several ranks share a GPU
    bool& is_held_up = is_held_up_[is_small(bytes) ? 0 : bytes <= kMailBytes ? 1 : 2];
    GPURUN_ASSIGN(std::optional<Slot> slot, take_free_slot(fence, bytes));
    if (slot) {
        is_held_up = false;
        return slot;
    }
    if (!soon || is_held_up || !resources_.place.core_for_each_rank)
        return slot;
    for (const int64_t end_ns = platform::now_ns() + kSoonNs; !slot && platform::now_ns() < end_ns;) {
        GPURUN_ASSIGN(slot, take_free_slot(fence, bytes));
    }
    is_held_up = !slot;
    return slot;
}

// Of the smallest class that has room for it, and else of the next.
Result<std::optional<Slot>> MailboxPart::take_free_slot(Fence& fence, uint64_t bytes) {
    const auto unused =
        std::find_if(unused_.begin(), unused_.end(), [&](const Slot& each) { return bytes <= room_in(each); });
    if (unused != unused_.end()) [[unlikely]] {
        const Slot slot = *unused;
        unused_.erase(unused);
        return std::optional(slot);
    }
    if (is_small(bytes)) {
        GPURUN_ASSIGN(const std::optional<Slot> small, small_mails_.take(fence));
        if (small)
            return small;
    }
    if (bytes <= kMailBytes) {
        GPURUN_ASSIGN(const std::optional<Slot> medium, mails_.take(fence));
        if (medium)
            return medium;
    }
    return large_mails_.take(fence);
}

Result<void> MailboxPart::let_go() {
    if (!workspace_)
        return {};
    return resources_.device.close_memory(std::exchange(workspace_, std::nullopt)->memory());
}

// ------------------------------------------------------------------------------------------------------- source

// A mail saves a crossing, and takes twice its bytes of the target's links, which all share that send to it meanwhile.
size_t share_of(uint32_t beside, size_t largest) {
    constexpr size_t kLeast = size_t{128} << 10;
    return std::min(largest, std::max(2 * largest / (beside + 1), kLeast));
}

// What is reduced in one kernel where it is, and passed on by that, would take two kernels by mail. (Not shorter: a
// kernel knows a mail by its words, and all else by counters in host memory.) And where each rank reduces what the
// others send, long mails hold each other up.
size_t longest_to_be_reduced(Reduced reduced, uint32_t beside) {
    constexpr size_t kTradedByFew = size_t{1} << 20, kTraded = size_t{512} << 10, kLeastTraded = size_t{64} << 10;
    if (reduced == Reduced::kPassedOn)
        return kLongestPassedOn;
    if (reduced != Reduced::kInTrade)
        return SIZE_MAX;
    return has_few_ranks(beside + 1) ? kTradedByFew / (beside + 1) : std::max(kTraded / beside, kLeastTraded);
}
bool is_better_read(const Send& send) {
    return send.operand().bytes > longest_to_be_reduced(send.reduced(), send.beside()) && may_be_reduced(send);
}

// In the host's order, from some size on, a copy engine is faster than two kernels.
bool goes_by_mailbox(const Send& send) {
    const base::Settings& settings = send.resources().settings;
    const Operand& from = send.operand();
    const size_t largest = from.on_stream() ? largest_from_stream(send.resources())
                                            : std::min(settings.mail_bytes, settings.device_eager_bytes);
    return from.bytes != 0 && from.bytes <= share_of(send.beside(), largest) && !from.by_cpu() && from.by_device() &&
           !send.synchronous() && !from.captured() && !is_better_read(send) &&
           settings.path == base::PathChoice::kAuto && send.target().part<MailboxPart>().open();
}

bool may_be_fused(const Send& send) {
    return is_small(send.operand().bytes) && send.is_request() && goes_by_mailbox(send);
}

namespace {

// A call that is ahead of its stream. Not one of many messages: they would wait for each other.
bool waits_for_slot(const Send& send) {
    constexpr size_t kFew = 4;
    return (send.ends_in_stream() || send.ends_together()) &&
           send.resources().exchanges.puts(send.operand().stream) < kFew;
}

} // namespace

Result<Posted> MailSend::post(Send& send) {
    MailboxPart& part = send.target().part<MailboxPart>();
    if (!slot_.valid && !goes_by_mailbox(send))
        return Posted::kNot;
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    if (!slot_.valid) {
        GPURUN_ASSIGN(const std::optional<Slot> taken,
                      part.take_slot(*fence, send.operand().bytes, waits_for_slot(send)));
        if (!taken)
            return Posted::kNot;
        slot_ = *taken;
    }
    const device::Mail mail = mail_to(send.resources(), send.target(), *fence, slot_, send.operand().bytes);
    GPURUN_ASSIGN(const bool fused, can_be_fused_now(send));
    return fused ? put_fused(send, mail) : put_alone(send, *fence, mail);
}

// Whether nothing in the program's stream has to come before it any more.
Result<bool> MailSend::can_be_fused_now(Send& send) const {
    if (!is_small(send.operand().bytes) || send.ends_in_stream())
        return false;
    if (!send.operand().on_stream())
        return true;
    return send.resources().exchanges.collects() ? Result<bool>(false) : send.work().is_marker_passed_for_send();
}

bool MailSend::publish(Send& send) const {
    Record record(RecordKind::kMessage, kProtocol);
    record.envelope = send.envelope();
    return send.publish(record.with(slot_), kByMailbox);
}

// The record is posted first, so that both sides launch their kernels at the same time. The target's kernel may then
// wait for one that is not enqueued yet. That is safe: it is enqueued before this rank gives up the engine lock, and
// whatever is before it in its stream waits only for messages that were posted earlier.
Result<Posted> MailSend::put_fused(Send& send, const device::Mail& mail) {
    if (!publish(send))
        return Posted::kNoRoom;
    send.work().give_marker_back();
    device::OutgoingMail put{mail, send.operand().address};
    put.mail.times = send.trace().times(send.resources().trace);
    GPURUN_ASSIGN(launch_, send.resources().fused.put(put));
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    send.end_at(CompletionPoint::at(*fence, Edge::kForward, slot_));
    return Posted::kYes;
}

Result<Posted> MailSend::put_alone(Send& send, Fence& fence, const device::Mail& mail) {
    GPURUN_TRY(send.take_stream(false));
    if (!publish(send))
        return Posted::kNoRoom;
    send.note_own_stream();
    device::Mail put = mail;
    put.times = send.trace().times(send.resources().trace);
    device::Mails& mails = send.target().part<MailboxPart>().device();
    if (send.ends_together() || (send.operand().on_stream() && send.resources().exchanges.collects())) {
        send.resources().exchanges.put({put, send.operand().address}, send.operand().stream);
    } else if (auto enqueued = mails.put_mail(put, send.operand().address, send.operand().stream); !enqueued) {
        // The device has failed, and with it this rank. The peer must not wait for the mail.
        Slot poisoned = slot_;
        poisoned.value = platform::kPoison;
        fence.signal_now(Edge::kForward, poisoned);
        return std::move(enqueued).error();
    }
    send.end_at(CompletionPoint::at(fence, Edge::kForward, slot_));
    return Posted::kYes;
}

Result<bool> MailSend::complete_into(Send& send, device::Stream stream) {
    return launch_ == 0 ? Result<bool>(false) : send.resources().fused.await_put(launch_, stream);
}

// ------------------------------------------------------------------------------------------------------- target

namespace {

// A mail that a request on a stream has got need not be taken before the request is completed: into that stream most
// often, and all that one call completes there is taken by one kernel. One that a collective reduces need not be taken
// at all. Until then it stays in its slot, so a few are, and more if they soon will be completed.
bool may_be_left(const Receive& receive) {
    return (receive.ends_by_completion() || receive.is_kept_mail()) && receive.bytes() != 0 &&
           receive.operand().by_device() && receive.resources().left.size() < receive.resources().most_left();
}

} // namespace

Result<void> MailReceive::start(Receive& receive, const Arrival& arrival) {
    slot_ = arrival.record.as<Slot>();
    mail_bytes_ = arrival.record.envelope.bytes;
    receive.count(kByMailbox, mail_bytes_);
    if (may_be_left(receive)) {
        if (!receive.is_kept_mail())
            GPURUN_TRY(receive.work().set_marker());
        receive.leave_to_completion();
        return {};
    }
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    return take(receive, *fence);
}

Result<void> MailReceive::enqueue_left(Receive& receive, std::optional<device::Stream> stream) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    if (!stream)
        return take(receive, *fence);
    if (receive.work().has_marker())
        GPURUN_TRY(receive.work().await_marker(*stream));
    return take_together(receive, *fence, *stream);
}

Result<device::FusedReduction::Operand> MailReceive::hand_over(Receive& receive, device::Stream stream) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_TRY(receive.note_dependence(*fence, slot_, stream));
    device::FusedReduction::Operand operand;
    operand.mail = mail_of(receive, *fence);
    return operand;
}

Result<void> MailReceive::take(Receive& receive, Fence& fence) {
    if (!receive.ends_in_stream() && receive.bytes() != 0 && is_small(mail_bytes_) && receive.operand().by_device()) {
        GPURUN_ASSIGN(const bool at_once, receive.is_marker_passed());
        if (at_once)
            return take_fused(receive, fence);
    }
    return take_alone(receive, fence);
}

// In a kernel with others, which whoever makes progress launches soon.
Result<void> MailReceive::take_fused(Receive& receive, Fence& fence) {
    GPURUN_TRY(receive.depend_on(fence, slot_, std::nullopt));
    receive.work().give_marker_back();
    fused_ = true;
    GPURUN_ASSIGN(const uint64_t launch, receive.resources().fused.take(
                                             {mail_of(receive, fence), receive.operand().address, receive.bytes()}));
    receive.set_launch(launch);
    receive.end_at(CompletionPoint::at(fence, Edge::kBackward, slot_));
    return {};
}

device::Mail MailReceive::mail_of(Receive& receive, Fence& fence) const {
    device::Mail mail = mail_from(receive.resources(), receive.source(), fence, slot_, mail_bytes_);
    mail.times = receive.trace().times(receive.resources().trace);
    return mail;
}

// In a kernel with the mails of other calls, or of others that are completed together.
Result<void> MailReceive::take_together(Receive& receive, Fence& fence, device::Stream stream) {
    GPURUN_TRY(receive.note_dependence(fence, slot_, stream));
    receive.resources().exchanges.take({mail_of(receive, fence), receive.operand().address, receive.bytes()}, stream);
    return {};
}

Result<void> MailReceive::take_alone(Receive& receive, Fence& fence) {
    bool waits = false;
    if (!receive.ends_in_stream()) {
        GPURUN_ASSIGN(const bool ready, fence.reached(Edge::kForward, slot_));
        waits = !ready;
    }
    GPURUN_TRY(receive.take_stream(waits));
    const Operand& into = receive.operand();
    // An exchange may have as few blocks as this rank's share of the device.
    const bool is_wide = device::mail_blocks(receive.bytes()) > receive.resources().pools.kernels.blocks();
    if ((receive.ends_together() || (receive.ends_in_stream() && is_wide)) && receive.bytes() != 0 &&
        into.by_device()) {
        GPURUN_TRY(take_together(receive, fence, into.stream));
        return receive.end_behind(fence, Edge::kBackward, slot_, into.stream);
    }
    GPURUN_TRY(receive.depend_on(fence, slot_, into.stream));
    if (receive.bytes() == 0 || !receive.kernel_may_spin(fence, slot_, device::mail_blocks(receive.bytes())))
        GPURUN_TRY(fence.await(Edge::kForward, slot_, into.stream));
    if (receive.bytes() == 0) {
        GPURUN_TRY(fence.signal(Edge::kBackward, slot_, into.stream));
        return receive.end_behind(fence, Edge::kBackward, slot_, into.stream);
    }
    const device::Mail mail = mail_of(receive, fence);
    device::Mails& mails = receive.source().part<MailboxPart>().device();
    if (into.by_device()) {
        GPURUN_TRY(mails.take_mail(mail, into.address, receive.bytes(), !receive.ends_in_stream(), into.stream));
        return receive.end_behind(fence, Edge::kBackward, slot_, into.stream);
    }
    GPURUN_ASSIGN(StagingPool::Buffer * staged, receive.resources().pools.staging.take(receive.bytes()));
    GPURUN_TRY(mails.take_mail(mail, staged->data, receive.bytes(), true, into.stream));
    GPURUN_TRY(receive.copy_from_host(staged->data, receive.bytes()));
    return receive.end_behind(*staged);
}

// For the wait report, of one that was left.
std::optional<CompletionPoint> MailReceive::blocked_on(const Receive& receive) const {
    return CompletionPoint::at(*receive.source().channel().open_fence(Direction::kIn), Edge::kForward, slot_);
}

Result<bool> MailReceive::is_complete_without_peer(const Receive& receive, const CompletionPoint&) const {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool cut_short, fence->cut_short(Edge::kForward, slot_));
    return !cut_short;
}

Result<bool> MailReceive::complete_into(Receive& receive, device::Stream stream) {
    if (!receive.source().lost())
        receive.source().awaiting_forward.complete_into(slot_, stream);
    return !fused_ ? Result<bool>(false) : receive.resources().fused.await_take(receive.launch(), stream);
}

// -------------------------------------------------------------------------------------------- without operations

uint64_t longest_plain_mail(const Resources& resources, Reduced reduced, uint32_t beside) {
    if (resources.settings.path != base::PathChoice::kAuto)
        return 0;
    return std::min(share_of(beside, largest_from_stream(resources)), longest_to_be_reduced(reduced, beside));
}

bool put_plain_mail(Resources& resources, Peer& target, const Operand& from, const Envelope& envelope,
                    uint64_t signature) {
    MailboxPart& part = target.part<MailboxPart>();
    if (!part.open())
        return false;
    auto opened = target.fence_out();
    auto taken = opened ? part.take_slot(**opened, envelope.bytes, true) : Result<std::optional<Slot>>(std::nullopt);
    if (!taken || !*taken)
        return false;
    Fence& fence = **opened;
    const Slot slot = **taken;
    Record record(RecordKind::kMessage, MailboxPart::kProtocol);
    record.envelope = envelope;
    record.with(slot).sign(signature);
    if (!target.channel().post(record, {}, Notify::kIfSleeping)) {
        part.give_back(slot);
        return false;
    }
    ++target.count_out.messages;
    target.sent.count(kByMailbox, envelope.bytes);
    resources.exchanges.put({mail_to(resources, target, fence, slot, envelope.bytes), from.address}, from.stream);
    return true;
}

std::optional<PlainMail> find_plain_mail(Peer& source, const Record& record) {
    auto fence = source.fence_in();
    if (!fence)
        return std::nullopt;
    source.received.count(kByMailbox, record.envelope.bytes);
    return PlainMail{&source, *fence, record.as<Slot>(), record.envelope.bytes};
}

device::Mail open_plain_mail(const Resources& resources, const PlainMail& mail, device::Stream stream) {
    mail.source->awaiting_forward.note(mail.slot, stream);
    return mail_from(resources, *mail.source, *mail.fence, mail.slot, mail.bytes);
}

void drop_plain_mail(const PlainMail& mail) { mail.fence->signal_now(Edge::kBackward, mail.slot); }

} // namespace gpurun::transfer
