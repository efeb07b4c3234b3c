#include "transfer/protocol/inline.hpp"

#include "transfer/receive.hpp"
#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr ProtocolId kProtocol = InlinePart::kProtocol;

// The message is matched: gives its credit back.
void note_matched(Peer& source, uint64_t bytes) {
    source.part<InlinePart>().note_matched(source, bytes + Record::kBareBytes);
}

} // namespace

InlinePart::InlinePart(const Resources& resources, const Peer& peer)
    : most_(peer.channel().shares_memory() ? resources.settings.eager_bytes
                                           : std::min(resources.settings.eager_bytes, kMostInlineCarried)) {}

bool InlinePart::see_matched(const Peer& peer, uint64_t after) {
    matched_seen_ = peer.channel().total(Direction::kOut, kEagerMatched);
    return after - matched_seen_ <= kEagerCreditBytes;
}

void InlinePart::give_credit_back(const Peer& peer) {
    told_ = matched_;
    peer.channel().set_total(Direction::kIn, kEagerMatched, matched_);
}

bool post_inline(Peer& target, const std::byte* payload, const Envelope& envelope, uint64_t signature) {
    const size_t most_few = signature == 0 ? kMostFew : PeerChannel::kMostFewSigned;
    const bool few = envelope.bytes <= most_few && target.channel().post_few(kProtocol, envelope, payload, signature);
    if (!few) {
        Record record(RecordKind::kMessage, kProtocol);
        record.envelope = envelope;
        if (signature != 0)
            record.sign(signature);
        if (!target.channel().post(record, {payload, envelope.bytes}, Notify::kIfSleeping))
            return false;
    }
    note_sent_inline(target, envelope.bytes);
    return true;
}

bool post_inline_traced(platform::TraceBuffer& trace, platform::TraceEvent* call, Peer& target,
                        const std::byte* payload, const Envelope& envelope) {
    const int64_t begin_ns = call != nullptr ? call->begin_ns : platform::now_ns();
    if (!post_inline(target, payload, envelope))
        return false;
    MessageTrace::sent_at_once(trace, call, target.rank(), envelope, InlinePart::route(target),
                               target.count_out.messages, begin_ns);
    return true;
}

Result<Posted> InlineSend::post(Send& send) {
    Peer& target = send.target();
    if (send.synchronous() || !goes_inline(send.resources().settings, send.operand()) ||
        !target.part<InlinePart>().has_credit(target, send.envelope().bytes))
        return Posted::kNot;
    send.trace().posting_small();
    if (!post_inline(target, send.operand().address, send.envelope(), send.signature()))
        return Posted::kNoRoom;
    send.trace().posted(target.count_out.messages);
    send.trace().chosen(InlinePart::route(target));
    send.finish();
    return Posted::kYes;
}

Result<void> InlineReceive::start(Receive& receive, const Arrival& arrival) {
    Peer& source = receive.source();
    note_matched(source, arrival.payload.size());
    receive.count(InlinePart::route(source), arrival.payload.size());
    const uint64_t bytes = receive.bytes();
    if (bytes == 0)
        return receive.end_in_place();
    if (receive.operand().by_cpu()) {
        std::memcpy(receive.operand().address, arrival.payload.data(), bytes);
        receive.finish();
        return {};
    }
    GPURUN_TRY(receive.take_stream(false)); // the bytes are here
    GPURUN_ASSIGN(StagingPool::Buffer * staged, receive.resources().pools.staging.take(bytes));
    std::memcpy(staged->data, arrival.payload.data(), bytes);
    device::Times* const times = receive.stream_times();
    device::Device& device = receive.device();
    GPURUN_TRY(write_time(device, receive.operand().stream, times, &device::Times::moving));
    GPURUN_TRY(receive.copy_from_host(staged->data, bytes));
    GPURUN_TRY(write_time(device, receive.operand().stream, times, &device::Times::done));
    return receive.end_behind(*staged);
}

} // namespace gpurun::transfer
