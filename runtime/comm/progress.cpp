// Engine::progress(): what a rank does for its transfers whenever one of its threads is in a call, or the background
// thread is on duty.
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
    bool moved = false;
    give_back_freed();
    for (auto& each : links_) {
        Link& link = *each;
        if (!link.consumer.empty())
            moved |= drain(link);
        if (!link.quiet())
            moved |= attend_to(link);
        const auto state = context_.job.rank(link.peer).state.load(std::memory_order_acquire);
        if (!link.lost && state == static_cast<uint32_t>(platform::RankState::kDead)) {
            moved |= drain(link); // what it had published before it died
            lose(link);
            moved = true;
        }
    }
    launch_mails();
    moved |= advance_moving();
    if (!moved)
        return false;
    reap_abandoned();
    changed();
    return true;
}

bool Engine::attend_to(Link& link) {
    (void)link.flush(); // what does not fit now is tried again
    if (auto swept = link.channels.sweep(); !swept)
        base::log(base::LogLevel::kWarn, "clearing after captured messages to rank {}: {}", link.peer,
                  swept.error().detail);
    bool moved = give_edges(link);
    moved |= post_waiting(link);
    if (link.imports) {
        if (auto swept = link.imports->sweep(); !swept)
            base::log(base::LogLevel::kWarn, "unmapping memory of rank {}: {}", link.peer, swept.error().detail);
    }
    return moved;
}

void Engine::changed() {
    ++changes_;
    if (sleeping_ > 0)
        context_.job.ring_doorbell(rank(), platform::News::kPassive);
}

bool Engine::drain(Link& link) {
    bool drained = false;
    while (const Record* record = link.consumer.front()) {
        dispatch(link, *record, link.consumer.payload());
        link.consumer.pop();
        drained = true;
    }
    tell_of_room(link);
    return drained;
}

void Engine::dispatch(Link& link, const Record& record, std::span<const std::byte> payload) {
    switch (record.kind) {
    case RecordKind::kInline:
    case RecordKind::kSlot:
    case RecordKind::kRequest:
    case RecordKind::kCaptured:
        if (Receive* receive = matcher_.arrive(link, record, payload))
            watch(receive->incoming);
        return;
    case RecordKind::kPulled:
    case RecordKind::kGrant:
    case RecordKind::kWantEdge: answer(link, record); return;
    case RecordKind::kEdge: take_edge(link, record); return;
    case RecordKind::kShare: share_copy(link, record); return;
    case RecordKind::kSlab: link.peer_slab_handle = record.slab; return;
    case RecordKind::kRevoke:
        if (link.imports)
            link.imports->revoke(record.revoked_id);
        return;
    case RecordKind::kChannelEnded: link.channels.ended_at_target(record.serial); return;
    case RecordKind::kNone:
    case RecordKind::kSkip: break;
    }
    CHECK(!"a record of a known kind");
}

void Engine::answer(Link& link, const Record& record) {
    Outgoing* send = link.unanswered.find([&](const Outgoing& each) { return each.serial() == record.serial; });
    if (send == nullptr)
        return; // its call has failed meanwhile
    if (auto answered = send->answered(record); !answered)
        send->fail(std::move(answered).error());
    watch(*send);
}

void Engine::take_edge(Link& link, const Record& record) {
    transfer::Incoming* incoming =
        link.edgeless_in.find([&](const transfer::Incoming& each) { return each.serial() == record.serial; });
    if (incoming == nullptr)
        return; // its call has failed meanwhile
    if (auto taken = incoming->take_edge(record.slot); !taken)
        incoming->fail(std::move(taken).error());
}

bool Engine::give_edges(Link& link) {
    bool given_any = false;
    while (Outgoing* send = link.owing_edge.front()) {
        auto given = send->give_edge();
        if (given && !*given)
            break;
        link.owing_edge.remove(*send);
        if (!given)
            send->fail(std::move(given).error());
        watch(*send);
        given_any = true;
    }
    return given_any;
}

void Engine::share_copy(Link& link, const Record& record) {
    Outgoing* send = link.unanswered.find([&](const Outgoing& each) { return each.serial() == record.serial; });
    if (send == nullptr)
        return;
    send->share_copy(record);
    watch(*send);
}

// The next message that both ranks copy, if none is.
bool Engine::share_next(Link& link) {
    bool any = false;
    while (!link.shares_copy && !link.to_share.empty()) {
        transfer::Incoming& next = *link.to_share.front();
        if (auto read = next.read_in_turn(); !read)
            next.fail(std::move(read).error());
        watch(next);
        any = true;
    }
    return any;
}

bool Engine::post_waiting(Link& link) {
    bool posted_any = false;
    while (Outgoing* send = link.unposted.front()) {
        auto posted = send->post();
        if (posted && !*posted)
            break;
        link.unposted.remove(*send);
        if (!posted)
            send->fail(std::move(posted).error());
        watch(*send);
        posted_any = true;
    }
    if (posted_any)
        changed();
    return posted_any;
}

bool Engine::advance_moving() {
    bool changed = false;
    const auto advance = [&](auto& each, auto& list) {
        const bool was_enqueued = each.enqueued();
        if (auto advanced = each.advance(); !advanced)
            each.fail(std::move(advanced).error());
        changed |= each.done() || each.enqueued() != was_enqueued;
        if (!each.moving())
            list.remove(each);
    };
    moving_out_.for_each([&](Outgoing& send) {
        advance(send, moving_out_);
        changed |= send.busy();
    });
    moving_in_.for_each([&](transfer::Incoming& incoming) {
        advance(incoming, moving_in_);
        changed |= incoming.busy();
    });
    for (auto& link : links_)
        changed |= share_next(*link);
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
    lose_operations(link);
}

void Engine::lose_operations(Link& link) {
    const auto error = [&] { return died(static_cast<int>(link.peer)); };
    const auto fail = [&](auto& each) {
        each.fail(error());
        watch(each);
    };
    const auto fail_unless_safe = [&](auto& each) {
        auto survives = each.survives();
        if (!survives || !*survives)
            each.fail(error());
    };
    link.unposted.for_each(fail);
    link.unanswered.for_each(fail);
    link.to_share.for_each(fail);
    moving_out_.for_each([&](Outgoing& send) {
        if (&send.link() == &link && !send.error())
            fail_unless_safe(send);
    });
    moving_in_.for_each([&](transfer::Incoming& incoming) {
        if (incoming.link() == &link && !incoming.error())
            fail_unless_safe(incoming);
    });
    matcher_.for_each_posted([&](Receive& receive) {
        if (!hopeless(receive.pattern))
            return;
        matcher_.withdraw(receive);
        receive.incoming.fail(died(receive.pattern.source));
    });
}

// Whether nobody is left who could send what it is for.
bool Engine::hopeless(const Pattern& pattern) const {
    if (pattern.source == kAnySource)
        return all_others_lost();
    return links_[static_cast<size_t>(pattern.source)]->lost;
}

} // namespace gpurun::comm
