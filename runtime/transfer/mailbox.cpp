#include "transfer/mailbox.hpp"

#include "base/log.hpp"
#include "transfer/probe.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr size_t kPlaceBytes = device::mail_words_bytes(kMailBytes);
constexpr size_t kSmallPlaceBytes = device::mail_words_bytes(device::kSmallMailBytes);
constexpr size_t kMailboxBytes = kMailSlots * kPlaceBytes + kSmallMailSlots * kSmallPlaceBytes;

constexpr size_t place_of(uint32_t slot) {
    return slot < kSmallMailSlot ? (slot - kMailSlot) * kPlaceBytes
                                 : kMailSlots * kPlaceBytes + (slot - kSmallMailSlot) * kSmallPlaceBytes;
}
constexpr size_t kPage = 4096;

// What a rank's kernels for one peer agree by.
struct Words {
    uint64_t gates[kSlotsUsed];
    uint32_t tickets[2][kSlotsUsed];
};

// A workspace: Words for each rank, then a mailbox, channels and channel counts for each.
constexpr size_t words_bytes(uint32_t ranks) { return (ranks * sizeof(Words) + kPage - 1) / kPage * kPage; }
constexpr size_t kBytesOfPeer = kMailboxBytes + kChannelsBytes + kChannelCountsBytes;

std::byte* channels_at(std::byte* workspace, uint32_t ranks, uint32_t source) {
    return workspace + words_bytes(ranks) + ranks * kMailboxBytes + source * kChannelsBytes;
}

std::byte* channel_counts_at(std::byte* workspace, uint32_t ranks, uint32_t target) {
    return workspace + words_bytes(ranks) + ranks * (kMailboxBytes + kChannelsBytes) + target * kChannelCountsBytes;
}

Words* words_of(std::byte* workspace, uint32_t peer) { return reinterpret_cast<Words*>(workspace) + peer; }

device::Mail mail_at(std::byte* workspace, uint32_t ranks, uint32_t source, Fence& fence, const SlotValue& slot,
                     size_t bytes) {
    device::Mail mail;
    mail.words = workspace + words_bytes(ranks) + source * kMailboxBytes + place_of(slot.slot);
    mail.bytes = bytes;
    mail.mark = static_cast<uint32_t>(slot.value / kStep % UINT32_MAX) + 1;
    mail.sent = &fence.counter(Edge::kForward, slot.slot);
    mail.taken = &fence.counter(Edge::kBackward, slot.slot);
    mail.value = slot.value;
    return mail;
}

// Whether mailboxes for all take no more than a small part of the device, even if all ranks are on it.
bool affordable(const device::Device& device, uint32_t ranks) {
    constexpr size_t kPart = 64;
    return size_t{ranks} * ranks * kBytesOfPeer <= device.info().memory_bytes / kPart;
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

Result<Workspace> Workspace::publish(device::Device& device, const base::Settings& settings,
                                     platform::RankRecord& record, uint32_t ranks) {
    bool mailboxes = ranks > 1 && settings.mail_bytes != 0 && device.info().counters &&
                     settings.fence != base::FenceKind::kEvent && affordable(device, ranks);
    size_t bytes = words_bytes(ranks) + (mailboxes ? ranks * kBytesOfPeer : 0);
    auto allocated = device.allocate(bytes);
    if (!allocated && mailboxes) { // others have filled the device: messages go on without
        base::log(base::LogLevel::kWarn, "no mailboxes ({}): small messages are staged", allocated.error().detail);
        mailboxes = false;
        bytes = words_bytes(ranks);
        allocated = device.allocate(bytes);
    }
    GPURUN_ASSIGN(void* memory, std::move(allocated));
    Workspace workspace(device, ranks, static_cast<std::byte*>(memory));
    GPURUN_TRY(clear(device, workspace.memory_, bytes));
    GPURUN_ASSIGN(const device::Buffer buffer, device.describe(memory, bytes));
    if (!mailboxes || !buffer.exportable)
        return workspace;
    GPURUN_ASSIGN(const device::MemoryHandle handle, device.export_memory(buffer));
    static_assert(sizeof(handle) == sizeof record.workspace);
    std::memcpy(record.workspace.data(), handle.bytes.data(), record.workspace.size());
    record.has_mailboxes = 1;
    workspace.mailboxes_ = true;
    return workspace;
}

Workspace::~Workspace() {
    if (memory_ != nullptr)
        (void)device_.free(memory_); // goes with the process otherwise
}

uint32_t* Workspace::ticket(uint32_t peer, Role role, uint32_t slot) const {
    return &words_of(memory_, peer)->tickets[role == Role::kSource ? 0 : 1][slot];
}

uint64_t* Workspace::gate(uint32_t peer, uint32_t slot) const { return &words_of(memory_, peer)->gates[slot]; }

std::byte* Workspace::channels(uint32_t source) const { return channels_at(memory_, ranks_, source); }

std::byte* Workspace::channel_counts(uint32_t target) const { return channel_counts_at(memory_, ranks_, target); }

device::Mail Workspace::incoming(uint32_t source, Fence& fence, const SlotValue& slot, size_t bytes) const {
    return mail_at(memory_, ranks_, source, fence, slot, bytes);
}

void Outbox::open(bool reachable) {
    tried_ = true;
    const platform::RankRecord& record = context_.job.rank(peer_);
    if (!reachable || record.has_mailboxes == 0 || context_.settings.mail_bytes == 0 || context_.uses_event_fence() ||
        takes_turns(context_.job, context_.settings, peer_))
        return;
    device::MemoryHandle handle;
    std::memcpy(handle.bytes.data(), record.workspace.data(), record.workspace.size());
    if (auto mapped = map(handle); !mapped)
        base::log(base::LogLevel::kWarn, "rank {}'s mailbox cannot be used ({}): small messages are staged", peer_,
                  mapped.error().detail);
}

Result<void> Outbox::map(const device::MemoryHandle& handle) {
    GPURUN_ASSIGN(void* imported, context_.device.import_memory(static_cast<int>(peer_), handle));
    auto* const workspace = static_cast<std::byte*>(imported);
    auto works = can_write(context_, workspace + words_bytes(context_.job.size()) + context_.rank * kMailboxBytes);
    if (works && *works) {
        imported_ = workspace;
        return {};
    }
    GPURUN_TRY(context_.device.close_memory(imported));
    if (!works)
        return std::move(works).error();
    return base::Error{base::Status::kDevice, "what was written there came back changed"};
}

device::Mail Outbox::outgoing(Fence& fence, const SlotValue& slot, size_t bytes) const {
    return mail_at(imported_, context_.job.size(), context_.rank, fence, slot, bytes);
}

std::byte* Outbox::channels() const { return channels_at(imported_, context_.job.size(), context_.rank); }

std::byte* Outbox::channel_counts() const { return channel_counts_at(imported_, context_.job.size(), context_.rank); }

Result<void> Outbox::close() {
    return imported_ == nullptr ? Result<void>() : context_.device.close_memory(std::exchange(imported_, nullptr));
}

} // namespace gpurun::transfer
