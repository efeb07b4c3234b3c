// inline: small messages of host memory in the host's order. The bytes are the record's payload; the send is over when
// it is published, and nobody waits while the pair's eager credit lasts.
#pragma once

#include "transfer/channel/few_bytes.hpp"
#include "transfer/state.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

// Bytes sent inline that the peer has not matched yet. Beyond this, messages go by rendezvous.
constexpr uint64_t kEagerCreditBytes = 1 << 20;
// The most in a message between ranks without memory in common: `pieces` are faster from there on.
constexpr size_t kMostInlineCarried = 8192;

class InlinePart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 1;

    static Route route(const Peer& peer) { return {kProtocol, static_cast<uint8_t>(peer.to_self() ? 1 : 0)}; }
    InlinePart(const Resources& resources, const Peer& peer);

    size_t most() const { return most_; } // bytes of a message
    // Whether a message of so many bytes may be sent before the peer has matched more.
    bool has_credit(const Peer& peer, uint64_t bytes) {
        if (bytes > most_) [[unlikely]]
            return false;
        const uint64_t after = sent_ + bytes + Record::kBareBytes;
        return after - matched_seen_ <= kEagerCreditBytes || see_matched(peer, after);
    }
    void note_sent(uint64_t bytes) { sent_ += bytes; }
    // So many more bytes are matched: gives credit back, in large pieces.
    void note_matched(const Peer& peer, uint64_t bytes) {
        matched_ += bytes;
        if (matched_ - told_ >= kEagerCreditBytes / 16) [[unlikely]]
            give_credit_back(peer);
    }

  private:
    bool see_matched(const Peer& peer, uint64_t after);
    void give_credit_back(const Peer& peer);

    const size_t most_;
    uint64_t sent_ = 0;         // as source: bytes, with their records
    uint64_t matched_seen_ = 0; // of them by the target, as last read
    uint64_t matched_ = 0;      // as target
    uint64_t told_ = 0;         // of them to the source
};

// Whether a message goes inline as far as its sender's buffer is concerned.
inline bool goes_inline(const base::Settings& settings, const Operand& operand) {
    return operand.by_cpu() && operand.bytes <= settings.eager_bytes;
}

// ---- the fast path: messages without a Send or a Receive.
// In the header, since a call of a function is a noticeable part of the 20 to 30 ns that a side takes.
bool post_inline(Peer& target, const std::byte* payload, const Envelope& envelope, uint64_t signature = 0);
bool post_inline_traced(platform::TraceBuffer& trace, platform::TraceEvent* call, Peer& target,
                        const std::byte* payload, const Envelope& envelope);
inline void note_sent_inline(Peer& target, uint64_t bytes) {
    ++target.count_out.messages;
    target.part<InlinePart>().note_sent(bytes + Record::kBareBytes);
    target.sent.count(InlinePart::route(target), bytes);
}
// Sends if it can go now. REQUIRES that it goes inline, and that no earlier message to the peer waits. `call` is as in
// Send::Mode.
inline bool send_inline_now(Resources& resources, Peer& target, const std::byte* payload, const Envelope& envelope,
                            platform::TraceEvent* call) {
    if (!target.part<InlinePart>().has_credit(target, envelope.bytes)) [[unlikely]]
        return false;
    if (resources.trace != nullptr) [[unlikely]]
        return post_inline_traced(*resources.trace, call, target, payload, envelope);
    if (envelope.bytes > kMostFew || !target.channel().post_few(InlinePart::kProtocol, envelope, payload, 0))
        return post_inline(target, payload, envelope);
    note_sent_inline(target, envelope.bytes);
    return true;
}
// `into` is host memory in the host's order.
inline void take_inline(Peer& source, std::span<const std::byte> payload, std::span<std::byte> into) {
    const size_t bytes = std::min(payload.size(), into.size());
    if (bytes <= kMostFew)
        copy_few(into.data(), payload.data(), bytes);
    else
        std::memcpy(into.data(), payload.data(), bytes);
    source.part<InlinePart>().note_matched(source, payload.size() + Record::kBareBytes);
    source.received.count(InlinePart::route(source), payload.size());
}

class InlineSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = InlinePart::kProtocol;
    base::Result<Posted> post(Send& send) override;
};

class InlineReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = InlinePart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
};

constexpr std::array<RouteText, 2> kInlineRoutes = {{{"host", "host memory"}, {"self", "host memory"}}};

} // namespace gpurun::transfer
