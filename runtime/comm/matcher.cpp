#include "comm/matcher.hpp"

#include <algorithm>

namespace gpurun::comm {

void Receive::tell_trace(const transfer::Operand& operand) {
    const uint32_t wildcards = (pattern.source == kAnySource ? platform::trace_flags::kAnySource : 0) |
                               (pattern.tag == kAnyTag ? platform::trace_flags::kAnyTag : 0);
    incoming.asks_for(pattern.source, {pattern.context, pattern.tag, operand.bytes}, wildcards);
}

void Matcher::start(Receive& receive, transfer::Link& link, const transfer::Record& record,
                    std::span<const std::byte> payload, uint64_t ordinal) {
    receive.source = static_cast<int>(link.peer);
    receive.envelope = record.envelope;
    receive.incoming.matched(link.peer, record.envelope, ordinal);
    if (auto started = receive.incoming.start(link, record, payload); !started)
        receive.incoming.fail(std::move(started).error());
}

bool Matcher::find(const Pattern& pattern, Queue::iterator& ret_oldest) {
    const size_t first = pattern.source == kAnySource ? 0 : static_cast<size_t>(pattern.source);
    const size_t last = pattern.source == kAnySource ? unexpected_.size() : first + 1;
    bool found = false;
    for (size_t source = first; source < last; ++source) {
        Queue& queue = unexpected_[source];
        const auto message = std::find_if(queue.begin(), queue.end(), [&](const Unexpected& each) {
            return pattern.fits(static_cast<int>(source), each.record.envelope);
        });
        if (message == queue.end() || (found && message->arrival > ret_oldest->arrival))
            continue;
        ret_oldest = message;
        found = true;
    }
    return found;
}

bool Matcher::post(Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links) {
    Queue::iterator oldest;
    if (!find(receive.pattern, oldest)) {
        receive.turn = turns_++;
        list_of(receive.pattern).push_back(receive);
        return false;
    }
    spare_.splice(spare_.begin(), unexpected_[oldest->source], oldest);
    const Unexpected& message = spare_.front();
    start(receive, *links[message.source], message.record, message.payload, message.ordinal);
    return true;
}

void Matcher::withdraw(Expected& receive) { list_of(receive.pattern).remove(receive); }

void Matcher::post_short(ShortReceive& receive) {
    receive.open = true;
    receive.turn = turns_++;
    ++open_short_;
    list_of(receive.pattern).push_back(receive);
}

void Matcher::promoted(ShortReceive& from, Receive& receive) {
    CHECK(from.open);
    from.open = false;
    --open_short_;
    receive.turn = from.turn;
    if (List::has(from))
        list_of(from.pattern).replace(from, receive);
}

bool Matcher::promote_all(size_t most) {
    for (auto& list : posted_)
        list.for_each([&](Expected& each) {
            if (each.is_short && open_short_ != 0 && most != 0) {
                --most;
                promote_(static_cast<ShortReceive&>(each));
            }
        });
    return open_short_ == 0;
}

void Matcher::take_inline(ShortReceive& receive, transfer::Link& link, const transfer::Envelope& envelope,
                          std::span<const std::byte> payload) {
    receive.open = false;
    --open_short_;
    receive.arrived = Arrived{static_cast<int>(link.peer), envelope.tag, envelope.bytes};
    link.copy_inline(payload, {receive.into, receive.room});
}

bool Matcher::take_in_turn(transfer::Link& link) {
    List& list = posted_[link.peer];
    bool any = false;
    while (Expected* const next = list.front()) {
        const transfer::Record* const record = link.consumer.short_front();
        if (record == nullptr || !next->is_short || !posted_.back().empty() ||
            !next->pattern.fits(static_cast<int>(link.peer), record->envelope))
            break;
        list.remove(*next);
        take_inline(static_cast<ShortReceive&>(*next), link, record->envelope, link.consumer.short_payload(*record));
        link.consumer.pop_short();
        ++link.in_count.messages;
        any = true;
    }
    return any;
}

Expected* Matcher::take_oldest(const transfer::Link& link, const transfer::Envelope& envelope) {
    const auto fits = [&](const Expected& each) { return each.pattern.fits(static_cast<int>(link.peer), envelope); };
    Expected* const of_source = posted_[link.peer].find(fits);
    Expected* const of_any = posted_.back().find(fits);
    Expected* const oldest =
        of_source == nullptr || (of_any != nullptr && of_any->turn < of_source->turn) ? of_any : of_source;
    if (oldest != nullptr)
        withdraw(*oldest);
    return oldest;
}

Receive* Matcher::arrive(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload) {
    const uint64_t ordinal =
        record.kind == transfer::RecordKind::kCaptured ? ++link.in_count.captured : ++link.in_count.messages;
    if (Expected* const oldest = take_oldest(link, record.envelope)) {
        if (oldest->is_short && record.kind == transfer::RecordKind::kInline) {
            take_inline(static_cast<ShortReceive&>(*oldest), link, record.envelope, payload);
            return nullptr;
        }
        Receive& receive =
            oldest->is_short ? promote_(static_cast<ShortReceive&>(*oldest)) : static_cast<Receive&>(*oldest);
        start(receive, link, record, payload, ordinal);
        return &receive;
    }
    if (spare_.empty())
        spare_.emplace_front();
    Queue& queue = unexpected_[link.peer];
    queue.splice(queue.end(), spare_, spare_.begin());
    Unexpected& message = queue.back();
    message.arrival = arrivals_++;
    message.source = link.peer;
    message.ordinal = ordinal;
    transfer::copy_record(message.record, record);
    message.payload.assign(payload.begin(), payload.end());
    return nullptr;
}

std::optional<Matcher::Found> Matcher::peek(const Pattern& pattern) {
    Queue::iterator oldest;
    if (!find(pattern, oldest))
        return std::nullopt;
    return Found{static_cast<int>(oldest->source), oldest->record.envelope};
}

uint64_t Matcher::take(const Pattern& pattern) {
    Queue::iterator oldest;
    CHECK(find(pattern, oldest));
    Queue& queue = taken_[++taken_numbers_];
    queue.splice(queue.begin(), unexpected_[oldest->source], oldest);
    return taken_numbers_;
}

void Matcher::start_taken(uint64_t number, Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links) {
    const auto taken = taken_.find(number);
    CHECK(taken != taken_.end());
    spare_.splice(spare_.begin(), taken->second);
    taken_.erase(taken);
    const Unexpected& message = spare_.front();
    start(receive, *links[message.source], message.record, message.payload, message.ordinal);
}

} // namespace gpurun::comm
