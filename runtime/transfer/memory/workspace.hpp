// A rank's workspace: device memory that it makes and exports before it is ready.
//
// In it, for each rank of its node: a mailbox, with room for a mail of each mail slot of the fence from that rank,
// which maps the workspace (protocol/mailbox.hpp), and memory for the channels of graphs' messages
// (protocol/graph_part.hpp); and for each rank of the job the words by which the blocks of this rank's own kernels
// agree. There are no mailboxes if the device has too little memory for so many peers, or no mails.
#pragma once

#include "base/limits.hpp"
#include "base/settings.hpp"
#include "device/capability/channels.hpp"
#include "platform/job_segment.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <span>
#include <utility>

namespace gpurun::transfer {

constexpr size_t kMailBytes = 64 << 10; // up to which a mail is no large one
// With many ranks on the node there is less room for each.
constexpr bool has_few_ranks(uint32_t here) { return here <= 4; }
// The largest mail, which takes most of a mailbox.
constexpr size_t large_mail_bytes(uint32_t here) {
    return has_few_ranks(here) ? base::kMostMailBytes : base::kMostMailBytes / 4;
}
// For messages of graphs, for each peer: memory that the peer allots, for messages to this rank; and memory that this
// rank allots, for messages to the peer.
constexpr size_t channels_bytes(uint32_t here) { return size_t{has_few_ranks(here) ? 16U : here <= 8 ? 6U : 1U} << 20; }
constexpr size_t channel_counts_bytes(uint32_t here) { return size_t{here <= 8 ? 1024U : 256U} << 10; }
// What those that carry bytes leave free of the former: room for as many signals as the latter has room for.
constexpr size_t channels_left_to_signals(uint32_t here) { return channel_counts_bytes(here); }
// Up to which length a message of a graph crosses in its channel.
constexpr size_t largest_in_channel(uint32_t here) {
    return has_few_ranks(here) ? device::kLargestInChannel : device::kLargestInChannel / 8;
}

constexpr size_t kAsideBytes = 64;

// For which ranks a workspace is; the same for all of a node.
struct WorkspaceRanks {
    uint32_t all = 0;                 // of the job
    uint32_t here = 0;                // of them on the node
    std::span<const uint32_t> places; // of each on the node, by rank

    static WorkspaceRanks of(const platform::JobSegment& job) { return {job.size(), job.here(), job.places()}; }
};

// Where things are in a workspace, mapped by its owner or by a peer. Except for the words of kernels, a rank is one of
// the node.
class WorkspaceView {
  public:
    WorkspaceView(std::byte* memory, const WorkspaceRanks& ranks) : memory_(memory), ranks_(ranks) {}

    static size_t bytes(const WorkspaceRanks& ranks, bool mailboxes);
    const WorkspaceRanks& ranks() const { return ranks_; }
    std::byte* memory() const { return memory_; }
    std::byte* mailbox(uint32_t source) const;
    std::byte* channels(uint32_t source) const;       // of graphs' messages from `source`
    std::byte* channel_counts(uint32_t target) const; // of those to `target`
    // A mail of `source` to the owner of this workspace, without a ticket.
    device::Mail mail(uint32_t source, Fence& fence, const Slot& slot, size_t bytes) const;
    // kAsideBytes of memory for what messages carry that nobody reads.
    std::byte* aside() const;
    // Words for the operation that uses the slot (device::Mail, device::FencedCopy). REQUIRES: it is this rank's
    // workspace.
    uint32_t* ticket(uint32_t peer, Side side, const Slot& slot) const; // kSource or kTarget
    uint64_t* gate(uint32_t peer, const Slot& slot) const;              // as target

  private:
    std::byte* memory_;
    WorkspaceRanks ranks_;
};

class Workspace {
  public:
    // Fills in the workspace of `facts`, if it has mailboxes; they are yet to be told.
    static base::Result<Workspace> publish(device::Device& device, const base::Settings& settings,
                                           const WorkspaceRanks& ranks, RankFacts& facts);
    Workspace(Workspace&& other) noexcept
        : device_(other.device_), view_(std::exchange(other.view_, WorkspaceView(nullptr, {}))),
          mailboxes_(other.mailboxes_) {}
    ~Workspace();

    const WorkspaceView& view() const { return view_; }
    uint32_t ranks_here() const { return view_.ranks().here; }
    bool has_mailboxes() const { return mailboxes_; } // and they are published

  private:
    Workspace(device::Device& device, const WorkspaceView& view) : device_(device), view_(view) {}

    device::Device& device_;
    WorkspaceView view_;
    bool mailboxes_ = false;
};

} // namespace gpurun::transfer
