// pull: one copy out of the source's buffer, which the target enqueues in its own stream (or makes by its CPU) behind
// the forward edge, and before the backward one. Then it tells the source (finish), whose stream waits for that edge.
//
// A message that a collective reduces may be left there instead, for a kernel that reads it as it reduces, between the
// same edges, and writes the result to where the source wants it, too.
//
// Out of the device memory of another process, through a mapping of its allocation (direct), out of a copy that the
// source makes in such memory of its own (bounce), or out of this process's own memory (self). A message without bytes
// has the edges only.
#pragma once

#include "transfer/protocol/edge_copy.hpp"
#include "transfer/protocol/rendezvous.hpp"

namespace gpurun::transfer {

// Why a message between devices is not pulled: the reason of the route by which it is relayed instead, in the order of
// the last of kRelayRoutes.
enum class NotPulled : uint8_t {
    kStagedForced,
    kNoSharedMemory,
    kNoPeerAccess,
    kProbeFailed,
    kBounceForced,
    kNotExportable,
    kForcedButNotExportable,
    kNotYetMapped,
    kNotMapped,
};

class PullPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 7;

    PullPart(Resources& resources, Peer& peer) : resources_(resources), peer_(peer) {}
    // Asks the peer to unmap an allocation of this rank. ExportCache knows who has answered.
    void ask_to_unmap(uint64_t id);
    void on_notice(const Record& notice) override; // AllocationNotice
    bool quiet() const override { return !peer_.memory().has_to_unmap() && asked_.empty(); }
    bool needs_hand() const override { return !asked_.empty(); }
    bool progress() override; // unmaps what was revoked, and what is kept beyond the limit
    void lose(const base::Error& error) override;

  private:
    struct Asked {
        uint64_t id;
        uint64_t question;
    };
    bool answer();

    Resources& resources_;
    Peer& peer_;
    std::vector<Asked> asked_; // what the peer has asked this rank to unmap, and it has not answered yet
};

// A notice of this protocol.
struct AllocationNotice {
    enum class What : uint64_t {
        kFreed,    // the exporter frees the allocation
        kUnmap,    // the importer is asked to unmap it as soon as it may, and to answer
        kUnmapped, // the answer, with the number of the question
    };
    What what;
    uint64_t id;
    uint64_t question = 0;
};

// Whether a message is pulled, and by which route; else `why_not` is written where both buffers are device memory.
std::optional<Route> find_pull(Receive& receive, const ReadyToSend& ready, uint64_t message_bytes, NotPulled& why_not);

class PullSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = PullPart::kProtocol;
    base::Result<void> on_record(Send& send, const Record& finish) override;
    bool joins_exchange(const Send& send) const override;
};

class PullReceive final : public EdgeCopy {
  public:
    static constexpr ProtocolId kProtocol = PullPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    base::Result<void> on_record(Receive& receive, const Record& record) override; // the edge that was missing
    Activity activity(const Receive& receive) const override;
    base::Result<void> advance(Receive& receive) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;
    base::Result<void> enqueue_left(Receive& receive, std::optional<device::Stream> stream) override;
    base::Result<bool> begin_left(Receive& receive) override;
    base::Result<device::FusedReduction::Operand> hand_over(Receive& receive, device::Stream stream) override;
    bool holds_up_source(const Receive& receive) const override;
    bool answer_written() const override { return answered_; }
    void describe(const Receive& receive, platform::wait_report::Entry& entry) const override;

  private:
    base::Result<void> leave_or_pull(Receive& receive);
    bool may_be_left(const Receive& receive) const;
    base::Result<void> want_edge(Receive& receive);
    base::Result<void> pull(Receive& receive);
    void tell(Receive& receive, bool has_signalled);

    ReadyToSend ready_;
    std::optional<RemoteBuffer> answer_;
    Route route_{};
    bool wants_edge_ = false;
    bool answered_ = false;
};

constexpr std::array<RouteText, 6> kPullRoutes = {{{"direct", "same device"},
                                                   {"direct", "peer access"},
                                                   {"direct", "GPURUN_PATH"},
                                                   {"self", "same process"},
                                                   {"staged", "small: does not wait for its match"},
                                                   {"bounce", "in one piece: peers cannot map the memory"}}};

} // namespace gpurun::transfer
