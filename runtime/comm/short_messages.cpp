// Small messages between host memory, in the host's order: the straight way (see engine.hpp). It does what
// Outgoing, Incoming and Matcher do of such a message when nothing stands before it, and leaves all else to them.
#include "comm/engine.hpp"

namespace gpurun::comm {

using transfer::Envelope;
using transfer::Link;
using transfer::Outgoing;
using transfer::Record;
using transfer::RecordKind;

namespace {

// Longer than a small message and its answer take (0.1 to 0.8 us). Then the call waits as all do: others may want their
// transfers moved, and whoever asks is to be told.
constexpr int kMostLooks = 1000;

} // namespace

bool Engine::push_short(int dest, const std::byte* payload, const Envelope& envelope) {
    Link& to = link(dest);
    return to.unposted.empty() && !to.is_gone() && Outgoing::send_at_once(context_, to, payload, envelope);
}

bool Engine::send_short(int dest, const std::byte* payload, const Envelope& envelope) {
    const std::lock_guard lock(mutex_);
    return push_short(dest, payload, envelope);
}

// The next message of the peer's, if it is there and is what a receive with this pattern takes.
bool Engine::take_short(Link& link, const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived) {
    transfer::RingConsumer& ring = link.consumer;
    const Record* const is_short = ring.short_front();
    const Record* const record = is_short != nullptr ? is_short : ring.front();
    if (record == nullptr || record->kind != RecordKind::kInline ||
        !pattern.fits(static_cast<int>(link.peer), record->envelope))
        return false;
    ret_arrived = Arrived{static_cast<int>(link.peer), record->envelope.tag, record->envelope.bytes};
    if (is_short != nullptr) {
        link.copy_inline(ring.short_payload(*record), into);
        ring.pop_short();
    } else {
        link.copy_inline(ring.payload(), into);
        ring.pop();
    }
    ++link.in_count.messages;
    ++changes_;
    tell_of_room(link);
    return true;
}

bool Engine::receive_short(const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived) {
    const std::lock_guard lock(mutex_);
    if (context_.trace != nullptr || !matcher_.is_idle(pattern.source) || put_off_until_ns_ != 0)
        return false;
    starts_in_a_row_ = 0;
    Link& from = link(pattern.source);
    int looks = spin_ns_ != 0 && !from.to_self ? kMostLooks : 1;
    while (from.consumer.empty())
        if (--looks == 0 || mutex_.is_wanted())
            return false;
    return take_short(from, pattern, into, ret_arrived);
}

uint64_t Engine::start_short_send(int dest, const std::byte* payload, const Envelope& envelope, int type) {
    const std::lock_guard lock(mutex_);
    return push_short(dest, payload, envelope) ? requests_.take_short(Task::Kind::kSend, type).id : 0;
}

uint64_t Engine::start_short_receive(const Pattern& pattern, std::span<std::byte> into, int type) {
    const std::lock_guard lock(mutex_);
    Link& from = link(pattern.source);
    if (context_.trace != nullptr || matcher_.has_unexpected(pattern.source) || from.is_gone())
        return 0;
    Arrived arrived;
    const bool is_there =
        !from.consumer.empty() && matcher_.is_idle(pattern.source) && take_short(from, pattern, into, arrived);
    Named& named = requests_.take_short(Task::Kind::kReceive, type);
    named.pattern = pattern;
    named.into = into.data();
    named.room = into.size();
    if (is_there) {
        named.arrived = arrived;
        return named.id;
    }
    matcher_.post_short(named);
    if (!background_on_duty_)
        leave_to_background();
    return named.id;
}

// Of a request that is complete: whether nothing more is to be said of it than what has come.
bool Engine::is_complete_short(Named& named) {
    if (named.request == nullptr)
        return named.kind == Task::Kind::kSend || named.arrived.bytes <= named.room;
    Request& request = *named.request;
    return request.active && !request.persistent && !request.cancelled && request.receive && request.done() &&
           !request.receive->incoming.error() && request.receive->envelope.bytes <= request.operand.bytes;
}

Arrived Engine::release_short(Named& named) {
    if (named.request == nullptr) {
        requests_.release(named);
        return named.kind == Task::Kind::kSend ? Arrived{kAnySource, kAnyTag, 0} : named.arrived;
    }
    Request& request = *named.request;
    const Receive& receive = *request.receive;
    const Arrived arrived{receive.source, receive.envelope.tag, receive.envelope.bytes};
    deactivate(request);
    requests_.release(request);
    return arrived;
}

bool Engine::drain_short(Link& link) {
    bool any = matcher_.take_in_turn(link);
    if (!link.consumer.empty())
        any |= drain(link);
    else
        tell_of_room(link);
    if (any)
        changed();
    return any;
}

// Waits for a request if it is a short receive. False if it has become none meanwhile, or there is more to be said of
// it.
bool Engine::await_short(Lock& lock, std::span<const uint64_t> names, size_t index) {
    Named* const found = requests_.find(names[index]);
    if (found == nullptr || !found->open)
        return found != nullptr && is_complete_short(*found);
    Named& named = *found;
    Link& from = link(named.pattern.source);
    for (int looks = spin_ns_ != 0 && !from.to_self ? kMostLooks : 1; named.open && looks != 0; --looks) {
        if (!from.consumer.empty())
            (void)drain_short(from);
        else if (mutex_.is_wanted())
            break;
    }
    if (!named.open)
        return is_complete_short(named);
    const Attendance attendance(*this);
    const auto come = [&] { // another thread may complete it, though it should not
        Named* const still = requests_.find(names[index]);
        return still == nullptr || !still->open;
    };
    const Awaiting what{.kind = Awaiting::Kind::kRequests, .names = names};
    if (!wait(lock, what, come, [] { return base::Result<void>(); })) // only an alarm could fail
        return false;
    Named* const still = requests_.find(names[index]);
    return still != nullptr && is_complete_short(*still);
}

bool Engine::complete_short(std::span<uint64_t> names, const Settle* settle) {
    Lock lock(mutex_);
    if (put_off_until_ns_ != 0)
        return false;
    starts_in_a_row_ = 0;
    size_t first_open = names.size();
    for (size_t i = names.size(); i-- != 0;) {
        Named* const named = requests_.find(names[i]);
        if (named == nullptr || (!named->open && !is_complete_short(*named)))
            return false;
        if (named->open)
            first_open = i;
    }
    for (size_t i = first_open; i < names.size(); ++i)
        if (Named* const named = requests_.find(names[i]);
            named == nullptr || named->open || named->request != nullptr || !is_complete_short(*named))
            if (!await_short(lock, names, i))
                return false;
    for (size_t i = 0; i < names.size(); ++i) {
        Named* const named = requests_.find(names[i]);
        if (named == nullptr) { // it is among them twice
            if (settle != nullptr)
                (*settle)(i, Arrived{kAnySource, kAnyTag, 0}, 0);
            continue;
        }
        const int type = named->request == nullptr ? named->type : named->request->type;
        const Arrived arrived = release_short(*named);
        names[i] = 0;
        if (settle != nullptr)
            (*settle)(i, arrived, type);
    }
    return true;
}

} // namespace gpurun::comm
