#include "comm/progress.hpp"

namespace gpurun::comm {

using transfer::Liveness;
using transfer::Peer;
using transfer::Record;
using transfer::RecordKind;

bool Progress::run() {
    const uint64_t before = core_.changes();
    bool moved = false;
    deferred_.give_back();
    ended_.run();
    for (const auto& each : core_.peers()) {
        Peer& peer = *each;
        if (peer.channel().has_records())
            moved |= poll(peer);
        if (!peer.quiet()) {
            moved |= peer.progress();
            moved |= transfer::post_waiting(peer);
        }
        if (!peer.lost() && peer.channel().liveness() == Liveness::kDead) {
            moved |= poll(peer); // what it had published before it died
            failure_.lose(peer);
            moved = true;
        } else if (!peer.has_left_off() && !peer.to_self() && peer.channel().steps_of_leaving() != 0) {
            moved |= poll(peer);
            failure_.leave_off(peer);
            moved = true;
        }
    }
    batch_.launch_or_defer();
    moved |= advance_moving();
    moved |= advance_others_();
    moved |= orphaned_.progress();
    if (!moved && core_.changes() == before)
        return false;
    core_.requests().reap_abandoned();
    core_.note_change();
    return true;
}

bool Progress::poll(Peer& peer) {
    bool any = false;
    peer.channel().poll([&](const Record& record, std::span<const std::byte> payload) {
        assume_engine_lock();
        if (record.kind == RecordKind::kMessage)
            arrive(peer, record, payload);
        else
            dispatch(peer, record);
        any = true;
    });
    return any;
}

void Progress::poll_all() {
    for (const auto& each : core_.peers())
        if (each->channel().has_records())
            (void)poll(*each);
}

void Progress::arrive(Peer& peer, const Record& record, std::span<const std::byte> payload) {
    const uint64_t ordinal = peer.count_in.next(record.envelope);
    if ((record.envelope.context & kCollectiveContexts) != 0 && take_collective_(peer, ordinal, record, payload))
        return;
    if (Expected* const receive = core_.matcher().arrive(peer.rank(), record.envelope))
        static_cast<PostedReceive*>(receive)->start(peer, ordinal, record, payload);
    else if (!ended_.take(peer, ordinal, record, payload)) {
        core_.matcher().keep(peer.rank(), ordinal, record, payload);
        if (calls_are_over_)
            refuse(peer, record);
    }
}

void Progress::note_calls_are_over() {
    calls_are_over_ = true;
    core_.matcher().for_each_unexpected(SIZE_MAX, [&](const Unexpected& each) {
        assume_engine_lock();
        refuse(core_.peer(each.source), each.record);
    });
}

// What the source does not wait for has no serial, or one of another table.
void Progress::refuse(Peer& source, const Record& record) {
    const bool is_captured = (record.envelope.context & transfer::kCapturedContexts) != 0;
    if (record.serial != 0 && !is_captured)
        source.tell(Record(RecordKind::kUnwanted, record.protocol, record.serial));
}

bool Progress::take_next(PostedReceive& receive) {
    const WorldRank source = receive.pattern.source;
    Peer& peer = core_.peer(source);
    transfer::PeerChannel& channel = peer.channel();
    if (!core_.matcher().is_idle(source) || !channel.has_records())
        return false;
    std::span<const std::byte> payload;
    const Record* const record = channel.front(payload);
    if (record == nullptr || record->kind != RecordKind::kMessage || !receive.pattern.fits(source, record->envelope))
        return false;
    const uint64_t ordinal = peer.count_in.next(record->envelope);
    const bool of_collective = (receive.pattern.context & kCollectiveContexts) != 0;
    const bool is_taken = of_collective && take_collective_(peer, ordinal, *record, payload);
    if (!is_taken)
        receive.start(peer, ordinal, *record, payload);
    channel.pop();
    return !is_taken;
}

// An answer to an operation that has failed meanwhile finds nothing.
void Progress::dispatch(Peer& peer, const Record& record) {
    switch (record.kind) {
    case RecordKind::kToSend:
        if (transfer::Send* const send = peer.sends.find(record.serial))
            send->answer(record);
        return;
    case RecordKind::kToReceive:
        if (transfer::Receive* const receive = peer.receives.find(record.serial))
            receive->answer(record);
        return;
    case RecordKind::kNotice:
        if (record.protocol == transfer::LoanPart::kProtocol)
            heed(peer, record.as<transfer::LoanNotice>());
        else
            peer.on_notice(record);
        return;
    case RecordKind::kUnwanted:
        if (transfer::Send* const send = peer.sends.find(record.serial); send != nullptr && !send->matched())
            send->fail(left_off(peer.rank()));
        return;
    case RecordKind::kMessage:
    case RecordKind::kNone:
    case RecordKind::kSkip: break;
    }
    GPURUN_ASSERT(!"a record of a known kind");
}

void Progress::heed(Peer& peer, const transfer::LoanNotice& notice) {
    using What = transfer::LoanNotice::What;
    if (notice.what == What::kWhoHas || notice.what == What::kHasNone) {
        orphaned_.heed(peer, notice);
        return;
    }
    if (notice.what == What::kForget) {
        static const Group nobody({});
        ended_.drop_unexpected(Pattern{.context = kDescriptionContext,
                                       .source = peer.rank(),
                                       .tag = LoanDescription::tag_of(notice.serial),
                                       .group = &nobody});
        return;
    }
    // A receive or a probe may have taken it.
    Unexpected* const message = core_.matcher().take_message(peer.rank(), [&](const Unexpected& each) {
        return each.record.protocol == transfer::LoanPart::kProtocol && each.record.serial == notice.serial;
    });
    if (message == nullptr)
        return;
    peer.part<transfer::LoanPart>().tell(notice.serial, {transfer::LoanAnswer::What::kWithdrawn, {}});
    core_.matcher().give_back(*message);
}

bool Progress::advance_moving() {
    bool busy = false;
    core_.resources().moving.for_each([&](transfer::Operation& each) {
        each.advance();
        busy |= each.is_busy();
    });
    return busy;
}

} // namespace gpurun::comm
