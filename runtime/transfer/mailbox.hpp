// Mailboxes: small messages go into the target device's own memory, one hop after they were sent.
//
// Every rank has a workspace: device memory that it makes and exports before it is ready. There each other rank has a
// mailbox, a place for each mail slot of the fence from it, which that rank maps; and there are the words by which the
// blocks of this rank's own kernels agree. A workspace has no mailboxes where its device has little memory for so many
// peers, and there are none at all where kernels must not wait (turns.hpp). Before a source uses a mailbox, it has
// tried whether what it writes there can be read back.
//
// All of this happens while a rank starts: to map memory, and to free it, may wait for the whole device, and later some
// stream of the program's may itself wait for a message. In jobs of more than kMostOpened ranks, mailboxes are opened
// when they are first used.
#pragma once

#include "transfer/context.hpp"
#include "transfer/fence.hpp"
#include "transfer/record.hpp"

namespace gpurun::transfer {

constexpr size_t kMailBytes = 64 * 1024; // of the largest message
constexpr uint32_t kMostOpened = 16;
// For messages of graphs (channels.hpp), besides each mailbox: what its source allots for them here, and what this rank
// allots for those that it sends.
constexpr size_t kChannelsBytes = 1 << 20;
constexpr size_t kChannelCountsBytes = 256 << 10;

// A rank's own.
class Workspace {
  public:
    // Fills `record`'s workspace fields. REQUIRES: before the rank is ready.
    static base::Result<Workspace> publish(device::Device& device, const base::Settings& settings,
                                           platform::RankRecord& record, uint32_t ranks);
    Workspace(Workspace&& other) noexcept
        : device_(other.device_), ranks_(other.ranks_), memory_(std::exchange(other.memory_, nullptr)),
          mailboxes_(other.mailboxes_) {}
    ~Workspace();

    // Device memory for one operation that uses the slot at a time (device::Mail, device::FencedCopy).
    uint32_t* ticket(uint32_t peer, Role role, uint32_t slot) const; // kSource or kTarget
    uint64_t* gate(uint32_t peer, uint32_t slot) const;              // as target
    bool has_mailboxes() const { return mailboxes_; }
    // REQUIRES has_mailboxes().
    std::byte* channels(uint32_t source) const;
    std::byte* channel_counts(uint32_t target) const;
    // What `source` puts here. REQUIRES: this rank's record says that it has mailboxes.
    device::Mail incoming(uint32_t source, Fence& fence, const SlotValue& slot, size_t bytes) const;

  private:
    Workspace(device::Device& device, uint32_t ranks, std::byte* memory)
        : device_(device), ranks_(ranks), memory_(memory) {}

    device::Device& device_;
    uint32_t ranks_;
    std::byte* memory_;
    bool mailboxes_ = false; // and they are published
};

// This rank's mailbox at a peer.
class Outbox {
  public:
    Outbox(Context& context, uint32_t peer) : context_(context), peer_(peer) {}

    // Maps it, if the peer has one and it works; tried once. `reachable`: the peer's device is.
    void open(bool reachable);
    bool tried() const { return tried_; }
    bool is_open() const { return imported_ != nullptr; }
    // REQUIRES is_open(). Without its ticket.
    device::Mail outgoing(Fence& fence, const SlotValue& slot, size_t bytes) const;
    std::byte* channels() const; // what this rank allots at the peer
    std::byte* channel_counts() const;
    base::Result<void> close();

  private:
    base::Result<void> map(const device::MemoryHandle& handle);

    Context& context_;
    const uint32_t peer_;
    bool tried_ = false;
    std::byte* imported_ = nullptr; // the whole workspace
};

} // namespace gpurun::transfer
