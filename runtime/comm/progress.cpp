// Engine::progress(): what a rank does for its transfers whenever one of its threads is in a call.
#include "comm/engine.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>

namespace gpurun::comm {

using transfer::Link;
using transfer::Outgoing;
using transfer::Record;
using transfer::RecordKind;

bool Engine::progress() {
    bool changed = false;
    for (auto& each : links_) {
        Link& link = *each;
        changed |= drain(link);
        (void)link.flush(); // what does not fit now is tried again
        changed |= post_waiting(link);
        if (link.imports) {
            if (auto swept = link.imports->sweep(); !swept)
                base::log(base::LogLevel::kWarn, "unmapping memory of rank {}: {}", link.peer, swept.error().detail);
        }
        const auto state = context_.job.rank(link.peer).state.load(std::memory_order_acquire);
        if (!link.lost && state == static_cast<uint32_t>(platform::RankState::kDead)) {
            changed |= drain(link); // what it had published before it died
            lose(link);
            changed = true;
        }
    }
    changed |= advance_active();
    if (changed)
        context_.job.ring_doorbell(rank()); // another thread of this rank may sleep for what has just been moved
    return changed;
}

bool Engine::drain(Link& link) {
    bool drained = false;
    while (const Record* record = link.consumer.front()) {
        dispatch(link, *record, link.consumer.payload());
        link.consumer.pop();
        drained = true;
    }
    if (drained)
        context_.job.ring_doorbell(link.peer); // it may wait for room
    return drained;
}

void Engine::dispatch(Link& link, const Record& record, std::span<const std::byte> payload) {
    switch (record.kind) {
    case RecordKind::kInline:
    case RecordKind::kSlot:
    case RecordKind::kRequest: matcher_.arrive(link, record, payload); return;
    case RecordKind::kPulled:
    case RecordKind::kGrant: answer(link, record); return;
    case RecordKind::kSlab: link.peer_slab_handle = record.slab; return;
    case RecordKind::kRevoke:
        if (link.imports)
            link.imports->revoke(record.revoked_id);
        return;
    case RecordKind::kSkip: break;
    }
    CHECK(!"a record of a known kind");
}

void Engine::answer(Link& link, const Record& record) {
    const auto request = std::find_if(link.unanswered.begin(), link.unanswered.end(),
                                      [&](const Outgoing* send) { return send->serial() == record.serial; });
    if (request == link.unanswered.end())
        return; // its call has failed meanwhile
    Outgoing* send = *request;
    if (auto answered = send->answered(record); !answered)
        send->fail(std::move(answered).error());
}

bool Engine::post_waiting(Link& link) {
    bool posted_any = false;
    while (!link.unposted.empty()) {
        Outgoing* send = link.unposted.front();
        auto posted = send->post();
        if (posted && !*posted)
            break;
        std::erase(link.unposted, send);
        if (!posted)
            send->fail(std::move(posted).error());
        posted_any = true;
    }
    return posted_any;
}

bool Engine::advance_active() {
    bool changed = false;
    for (Outgoing* send : sends_) {
        if (send->done())
            continue;
        if (auto advanced = send->advance(); !advanced)
            send->fail(std::move(advanced).error());
        changed |= send->done();
    }
    for (Receive* receive : receives_) {
        if (!receive->incoming.started() || receive->incoming.done())
            continue;
        if (auto advanced = receive->incoming.advance(); !advanced)
            receive->incoming.fail(std::move(advanced).error());
        changed |= receive->incoming.done();
    }
    return changed;
}

base::Error Engine::died(int source) {
    if (source == kAnySource)
        return base::error(base::Status::kPeerLost, "every other rank of the job has died");
    return base::error(base::Status::kPeerLost, "rank {} has died; gpurun's own message says how", source);
}

bool Engine::all_others_lost() const {
    return size() > 1 &&
           std::all_of(links_.begin(), links_.end(), [&](const auto& each) { return each->to_self || each->lost; });
}

bool Engine::losing() const {
    return std::any_of(links_.begin(), links_.end(),
                       [&](const auto& each) { return !each->lost && context_.job.is_gone(each->peer); });
}

// Ends everything that needs the dead rank. What had already been enqueued in streams was released by the launcher's
// poison, or is released here; the streams are remembered, so that synchronize() can say so. Calls fail after that:
// they wait until their own copies no longer touch the buffer.
void Engine::lose(Link& link) {
    link.lost = true;
    const auto remember = [&](transfer::Half& half, transfer::Edge edge, const auto& in_flight) {
        auto fence = half.fence();
        if (!fence)
            return;
        for (uint32_t slot = 0; slot < in_flight.size(); ++slot) {
            if (in_flight[slot].value == 0)
                continue;
            auto cut_short = (*fence)->cut_short(edge, slot, in_flight[slot].value);
            if (cut_short && !*cut_short)
                continue;
            cut_short_ = true;
            stuck_ = stuck_ || !context_.releases_streams();
            void* stream = in_flight[slot].stream.native;
            if (std::find(lost_streams_.begin(), lost_streams_.end(), stream) == lost_streams_.end())
                lost_streams_.push_back(stream);
        }
    };
    remember(link.out, transfer::Edge::kBackward, link.awaiting_backward);
    remember(link.in, transfer::Edge::kForward, link.awaiting_forward);
    context_.device.release_peer(static_cast<int>(link.peer));
    for (Outgoing* send : sends_)
        if (&send->link() == &link && !send->done())
            send->fail(died(static_cast<int>(link.peer)));
    for (Receive* receive : receives_) {
        const bool from_it = receive->incoming.started() ? receive->incoming.link() == &link
                                                         : receive->pattern.source == static_cast<int>(link.peer);
        const bool from_nobody =
            !receive->incoming.started() && receive->pattern.source == kAnySource && all_others_lost();
        if ((from_it || from_nobody) && !receive->incoming.done()) {
            matcher_.withdraw(*receive);
            receive->incoming.fail(died(receive->pattern.source));
        }
    }
}

} // namespace gpurun::comm
