#include "comm/matcher.hpp"

namespace gpurun::comm {

void Matcher::start(Receive& receive, transfer::Link& link, const transfer::Record& record,
                    std::span<const std::byte> payload) {
    receive.source = static_cast<int>(link.peer);
    receive.envelope = record.envelope;
    if (auto started = receive.incoming.start(link, record, payload); !started)
        receive.incoming.fail(std::move(started).error());
}

std::optional<Matcher::Queue::iterator> Matcher::find(const Pattern& pattern, size_t source) {
    Queue& queue = unexpected_[source];
    for (auto message = queue.begin(); message != queue.end(); ++message)
        if (pattern.fits(static_cast<int>(source), message->record.envelope))
            return message;
    return std::nullopt;
}

void Matcher::post(Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links) {
    const Pattern& pattern = receive.pattern;
    const size_t first = pattern.source == kAnySource ? 0 : static_cast<size_t>(pattern.source);
    const size_t last = pattern.source == kAnySource ? unexpected_.size() : first + 1;
    std::optional<Queue::iterator> oldest;
    size_t from = 0;
    for (size_t source = first; source < last; ++source) {
        const auto found = find(pattern, source);
        if (found && (!oldest || (*found)->arrival < (*oldest)->arrival)) {
            oldest = found;
            from = source;
        }
    }
    if (!oldest) {
        posted_.push_back(&receive);
        return;
    }
    spare_.splice(spare_.begin(), unexpected_[from], *oldest);
    const Unexpected& message = spare_.front();
    start(receive, *links[from], message.record, message.payload);
}

void Matcher::withdraw(Receive& receive) { std::erase(posted_, &receive); }

void Matcher::arrive(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload) {
    const auto source = static_cast<int>(link.peer);
    for (Receive* receive : posted_) {
        if (receive->pattern.fits(source, record.envelope)) {
            std::erase(posted_, receive);
            start(*receive, link, record, payload);
            return;
        }
    }
    if (spare_.empty())
        spare_.emplace_front();
    Queue& queue = unexpected_[link.peer];
    queue.splice(queue.end(), spare_, spare_.begin());
    Unexpected& message = queue.back();
    message.arrival = arrivals_++;
    message.record = record;
    message.payload.assign(payload.begin(), payload.end());
}

} // namespace gpurun::comm
