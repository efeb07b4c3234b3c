// A rank's workspace: device memory that it makes and exports before it is ready.
//
// In it, for each other rank: a mailbox, with room for a mail of each mail slot of the fence from that rank, which maps
// the workspace (protocol/mailbox.hpp); memory for the channels of graphs' messages (protocol/graph_part.hpp); and the
// words by which the blocks of this rank's own kernels agree. There are no mailboxes if the device has too little
// memory for so many peers, or no mails.
#pragma once

#include "base/limits.hpp"
#include "base/settings.hpp"
#include "device/capability/channels.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <utility>

namespace gpurun::transfer {

constexpr size_t kMailBytes = 64 << 10; // up to which a mail is no large one
// Jobs of many ranks have less room for each peer.
constexpr bool has_few_ranks(uint32_t ranks) { return ranks <= 4; }
// The largest mail, which takes most of a mailbox.
constexpr size_t large_mail_bytes(uint32_t ranks) {
    return has_few_ranks(ranks) ? base::kMostMailBytes : base::kMostMailBytes / 4;
}
// For messages of graphs, for each peer: memory that the peer allots, for messages to this rank; and memory that this
// rank allots, for messages to the peer.
constexpr size_t channels_bytes(uint32_t ranks) { return size_t{has_few_ranks(ranks) ? 16U : 1U} << 20; }
constexpr size_t channel_counts_bytes(uint32_t ranks) { return size_t{has_few_ranks(ranks) ? 1024U : 256U} << 10; }
// Up to which length a message of a graph crosses in its channel.
constexpr size_t largest_in_channel(uint32_t ranks) {
    return has_few_ranks(ranks) ? device::kLargestInChannel : device::kLargestInChannel / 8;
}

// Where things are in a workspace, mapped by its owner or by a peer.
class WorkspaceView {
  public:
    WorkspaceView(std::byte* memory, uint32_t ranks) : memory_(memory), ranks_(ranks) {}

    static size_t bytes(uint32_t ranks, bool mailboxes);
    std::byte* memory() const { return memory_; }
    std::byte* mailbox(uint32_t source) const;
    std::byte* channels(uint32_t source) const;       // of graphs' messages from `source`
    std::byte* channel_counts(uint32_t target) const; // of those to `target`
    // A mail of `source` to the owner of this workspace, without a ticket.
    device::Mail mail(uint32_t source, Fence& fence, const Slot& slot, size_t bytes) const;
    // Words for the operation that uses the slot (device::Mail, device::FencedCopy). REQUIRES: it is this rank's
    // workspace.
    uint32_t* ticket(uint32_t peer, Side side, const Slot& slot) const; // kSource or kTarget
    uint64_t* gate(uint32_t peer, const Slot& slot) const;              // as target

  private:
    std::byte* memory_;
    uint32_t ranks_;
};

class Workspace {
  public:
    // Fills in the workspace of `facts`, if it has mailboxes; they are yet to be told.
    static base::Result<Workspace> publish(device::Device& device, const base::Settings& settings, uint32_t ranks,
                                           RankFacts& facts);
    Workspace(Workspace&& other) noexcept
        : device_(other.device_), view_(std::exchange(other.view_, WorkspaceView(nullptr, 0))),
          mailboxes_(other.mailboxes_) {}
    ~Workspace();

    const WorkspaceView& view() const { return view_; }
    bool has_mailboxes() const { return mailboxes_; } // and they are published

  private:
    Workspace(device::Device& device, const WorkspaceView& view) : device_(device), view_(view) {}

    device::Device& device_;
    WorkspaceView view_;
    bool mailboxes_ = false;
};

} // namespace gpurun::transfer
