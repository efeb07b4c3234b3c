#include "transfer/memory/workspace.hpp"

#include "base/log.hpp"

#include <cstring>

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr size_t kPage = 4096;
// Where mails of one class are in a mailbox: those of the next begin behind them.
constexpr SlotClass kMailClasses[] = {SlotClass::kLargeMail, SlotClass::kMail, SlotClass::kSmallMail};
constexpr size_t words_of(SlotClass mails, uint32_t here) {
    const size_t large = mails == SlotClass::kLargeMail ? large_mail_bytes(here) : kMailBytes;
    return device::mail_words_bytes(mails == SlotClass::kSmallMail ? device::kSmallMailBytes : large);
}
constexpr size_t first_words_of(SlotClass mails, uint32_t here) {
    size_t bytes = 0;
    for (const SlotClass each : kMailClasses) {
        if (each == mails)
            break;
        bytes += info_of(each).count * words_of(each, here);
    }
    return bytes;
}
constexpr size_t mailbox_bytes(uint32_t here) {
    constexpr SlotClass kLast = SlotClass::kSmallMail;
    return first_words_of(kLast, here) + info_of(kLast).count * words_of(kLast, here);
}

// The words by which the blocks of a rank's kernels for one peer agree.
struct KernelWords {
    uint64_t gates[kSlots];
    uint32_t tickets[2][kSlots];
};

// KernelWords for each rank and what lies aside, then a mailbox, channels and channel counts for each of the node.
constexpr size_t words_bytes(uint32_t ranks) {
    return (ranks * sizeof(KernelWords) + kAsideBytes + kPage - 1) / kPage * kPage;
}
constexpr size_t bytes_of_peer(uint32_t here) {
    return mailbox_bytes(here) + channels_bytes(here) + channel_counts_bytes(here);
}

constexpr size_t offset_in_mailbox(const Slot& slot, uint32_t here) {
    return first_words_of(slot.slots, here) + slot.index * words_of(slot.slots, here);
}

// Whether mailboxes for all take no more than a small part of the device, even if all ranks are on it.
bool affordable(const device::Device& device, uint32_t here) {
    constexpr size_t kShares = 16;
    return size_t{here} * here * bytes_of_peer(here) <= device.info().memory_bytes / kShares;
}

Result<void> clear(device::Device& device, std::byte* memory, size_t bytes) {
    GPURUN_ASSIGN(const device::Stream stream, device.create_stream());
    auto filled = device.fill(memory, 0, bytes, stream);
    auto done = device.synchronize(stream);
    GPURUN_TRY(device.destroy_stream(stream));
    GPURUN_TRY(std::move(filled));
    return done;
}

} // namespace

size_t WorkspaceView::bytes(const WorkspaceRanks& ranks, bool mailboxes) {
    return words_bytes(ranks.all) + (mailboxes ? ranks.here * bytes_of_peer(ranks.here) : 0);
}

std::byte* WorkspaceView::mailbox(uint32_t source) const {
    return memory_ + words_bytes(ranks_.all) + ranks_.places[source] * mailbox_bytes(ranks_.here);
}

std::byte* WorkspaceView::channels(uint32_t source) const {
    const uint32_t here = ranks_.here;
    return memory_ + words_bytes(ranks_.all) + here * mailbox_bytes(here) +
           ranks_.places[source] * channels_bytes(here);
}

std::byte* WorkspaceView::channel_counts(uint32_t target) const {
    const uint32_t here = ranks_.here;
    return memory_ + words_bytes(ranks_.all) + here * (mailbox_bytes(here) + channels_bytes(here)) +
           ranks_.places[target] * channel_counts_bytes(here);
}

device::Mail WorkspaceView::mail(uint32_t source, Fence& fence, const Slot& slot, size_t bytes) const {
    device::Mail mail;
    mail.words = mailbox(source) + offset_in_mailbox(slot, ranks_.here);
    mail.bytes = bytes;
    mail.mark = static_cast<uint32_t>(slot.value / kSlotStep % UINT32_MAX) + 1;
    mail.sent = &fence.counter(Edge::kForward, slot);
    mail.taken = &fence.counter(Edge::kBackward, slot);
    mail.value = slot.value;
    return mail;
}

std::byte* WorkspaceView::aside() const { return memory_ + ranks_.all * sizeof(KernelWords); }

uint32_t* WorkspaceView::ticket(uint32_t peer, Side side, const Slot& slot) const {
    auto* const words = reinterpret_cast<KernelWords*>(memory_) + peer;
    return &words->tickets[side == Side::kSource ? 0 : 1][slot.number()];
}

uint64_t* WorkspaceView::gate(uint32_t peer, const Slot& slot) const {
    return &(reinterpret_cast<KernelWords*>(memory_) + peer)->gates[slot.number()];
}

Result<Workspace> Workspace::publish(device::Device& device, const base::Settings& settings,
                                     const WorkspaceRanks& ranks, RankFacts& facts) {
    bool mailboxes = settings.mail_bytes != 0 && device.mails() != nullptr &&
                     settings.fence != base::FenceKind::kEvent && affordable(device, ranks.here);
    size_t bytes = WorkspaceView::bytes(ranks, mailboxes);
    auto allocated = device.allocate(bytes);
    if (!allocated && mailboxes) { // the device is full: messages go on without mailboxes
        base::log(base::LogLevel::kWarn, "no mailboxes ({}): small messages are staged", allocated.error().detail);
        mailboxes = false;
        bytes = WorkspaceView::bytes(ranks, mailboxes);
        allocated = device.allocate(bytes);
    }
    GPURUN_ASSIGN(void* const memory, std::move(allocated));
    Workspace workspace(device, WorkspaceView(static_cast<std::byte*>(memory), ranks));
    GPURUN_TRY(clear(device, workspace.view_.memory(), bytes));
    GPURUN_ASSIGN(const device::Buffer buffer, device.describe(memory, bytes));
    if (!mailboxes || !buffer.exportable)
        return workspace;
    GPURUN_ASSIGN(facts.workspace, device.export_memory(buffer));
    workspace.mailboxes_ = true;
    return workspace;
}

Workspace::~Workspace() {
    if (view_.memory() != nullptr)
        (void)device_.free(view_.memory()); // goes with the process otherwise
}

} // namespace gpurun::transfer
