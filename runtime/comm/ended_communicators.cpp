#include "comm/ended_communicators.hpp"

#include "transfer/protocol/inline.hpp"

namespace gpurun::comm {

void EndedCommunicators::end_unused() {
    core_.communicators().end_unused([&](const Communicator& each) {
        assume_engine_lock();
        drop_unexpected(each);
        untold_.push_back(each.id());
    });
    std::erase_if(untold_, [&](uint32_t id) {
        assume_engine_lock();
        return tell(id);
    });
}

bool EndedCommunicators::tell(uint32_t id) {
    const WorldRank giver = core_.communicators().ids().parts().giver(id);
    if (giver == core_.self()) {
        core_.communicators().ids().let_go(id, giver);
        return true;
    }
    transfer::Peer& peer = core_.peer(giver);
    if (peer.lost() || peer.channel().is_gone())
        return true;
    // Not in traces: nobody receives it.
    return peer.unposted.empty() && peer.part<transfer::InlinePart>().has_credit(peer, 0) &&
           transfer::post_inline(peer, nullptr, {kLetGoContext, static_cast<int32_t>(id), 0});
}

bool EndedCommunicators::take(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
                              std::span<const std::byte> payload) {
    const uint32_t context = record.envelope.context;
    if (context == kLetGoContext) {
        transfer::take_inline(source, payload, {});
        core_.communicators().ids().let_go(static_cast<uint32_t>(record.envelope.tag), source.rank());
        return true;
    }
    // That of a graph can only be received into a graph. Its send is not complete, so its id is not given again.
    if ((context & transfer::kCapturedContexts) != 0 || !core_.communicators().has_ended(context))
        return false;
    drop(source, ordinal, record, payload);
    return true;
}

void EndedCommunicators::drop_unexpected(const Communicator& ended) {
    for (const uint32_t context : {ended.user_context(), ended.collective_context()})
        drop_unexpected(Pattern::of(ended.group(), context, kAnySource, kAnyTag));
}

void EndedCommunicators::drop_unexpected(const Pattern& pattern) {
    while (core_.matcher().peek(pattern) != nullptr) {
        Unexpected& message = core_.matcher().release_taken(core_.matcher().take(pattern));
        drop(core_.peer(message.source), message.ordinal, message.record, message.payload);
        core_.matcher().give_back(message);
    }
}

// Received into no room, by a request that nobody will complete.
void EndedCommunicators::drop(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
                              std::span<const std::byte> payload) {
    static const Group nobody({});
    RequestTable& table = core_.requests();
    Request& request = table.take(Task{.kind = Task::Kind::kReceive});
    request.active = true;
    request.cancelled = false;
    table.note_started();
    const Pattern pattern{record.envelope.context, true, {}, kAnyTag, &nobody};
    request.receive.emplace(core_.resources(), table.receives(), request.task.operand, pattern,
                            ReceiveMode{.ending = transfer::Ending::kByCompletion});
    request.receive->begin();
    request.receive->start(source, ordinal, record, payload);
    table.abandon(request);
}

} // namespace gpurun::comm
