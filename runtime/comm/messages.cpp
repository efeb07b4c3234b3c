#include "comm/messages.hpp"

#include "platform/clock.hpp"
#include "transfer/protocol/graph.hpp"

#include <algorithm>
#include <array>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Operand;
using transfer::Send;

namespace {

// About a launch: who waits longer for a peer that does not come has lost what a launch less saves.
constexpr int64_t kLikelyNs = 3000;
constexpr int64_t kSureNs = 30'000;

} // namespace

// ------------------------------------------------------------------------------------------------------- starting

Result<void> Messages::check_captured(WorldRank peer, const Operand& operand) {
    if (!operand.captured())
        return {};
    const EngineLock lock(core_.mutex());
    return core_.peer(peer).part<transfer::GraphPart>().check(operand);
}

// Each send finds the first receive that is not yet another's, as in matching. A receive of any source could take a
// message of another rank, and with a message that is unexpected one of this rank could take that. In another stream,
// the send's would wait for it. Sends of requests that are held are queued already.
void Messages::pair_with_own(std::span<Send* const> sends, std::span<PostedReceive* const> receives) {
    constexpr size_t kMost = 16; // of a call with many, the first ones
    const auto is_own = [](const Send* each) { return each->target().to_self(); };
    if (std::none_of(sends.begin(), sends.end(), is_own))
        return;
    const transfer::Peer& self = core_.peer(core_.self());
    const auto queued = std::count_if(sends.begin(), sends.end(), [&](const Send* each) {
        return is_own(each) && base::List<Send, transfer::Unposted>::has(*each);
    });
    if (self.unposted.size() != static_cast<size_t>(queued) || self.channel().has_records() ||
        core_.matcher().has_unexpected(core_.self()))
        return;
    std::array<const PostedReceive*, kMost> taken{};
    size_t paired = 0;
    for (Send* const send : sends) {
        if (!is_own(send) || paired == kMost)
            continue;
        const Expected* const posted = core_.matcher().find_posted(core_.self(), send->envelope());
        if (posted != nullptr && std::find(receives.begin(), receives.end(), posted) == receives.end())
            continue; // which is not of this call
        const auto found = std::find_if(receives.begin(), receives.end(), [&](const PostedReceive* each) {
            return !each->pattern.any_source && each->pattern.fits(core_.self(), send->envelope()) &&
                   std::find(taken.begin(), taken.end(), each) == taken.end();
        });
        if (found == receives.end())
            continue;
        taken[paired++] = *found;
        const Operand& into = (*found)->operand();
        if (into.on_stream() && into.stream == send->operand().stream && into.by_device())
            send->note_receive_beside();
    }
}

void Messages::start(Send& send) {
    if (send.target().channel().is_gone())
        send.fail(lost(send.target()));
    else
        send.start();
}

void Messages::start(PostedReceive& receive) {
    receive.begin();
    const Operand& into = receive.operand();
    Matcher& matcher = core_.matcher();
    if (into.captured()) { // first, since a message that cannot be received must not be waited for
        background_.keep_watch();
        if (auto checked = core_.peer(receive.pattern.source).part<transfer::GraphPart>().check(into); !checked) {
            receive.fail(std::move(checked).error());
            return;
        }
    }
    if (!receive.pattern.any_source && progress_.take_next(receive))
        return;
    if (Unexpected* const message = matcher.post(receive)) {
        receive.start(core_.peer(message->source), message->ordinal, message->record, message->payload);
        matcher.give_back(*message);
        return;
    }
    Result<void> posted;
    if (failure_.is_hopeless(receive.pattern))
        posted = failure_.why_hopeless(receive.pattern);
    else
        posted = receive.set_marker();
    if (!posted)
        fail(receive, std::move(posted).error());
}

void Messages::fail(PostedReceive& receive, base::Error error) {
    if (!receive.started())
        core_.matcher().withdraw(receive);
    receive.fail(std::move(error));
}

void Messages::start_taken(uint64_t number, PostedReceive& receive) {
    receive.begin();
    Unexpected& message = core_.matcher().release_taken(number);
    if (const Communicator* const comm = core_.communicators().of_context(message.record.envelope.context))
        comm->let_go();
    receive.start(core_.peer(message.source), message.ordinal, message.record, message.payload);
    core_.matcher().give_back(message);
}

// --------------------------------------------------------------------------------------------------- blocking calls

Result<void> Messages::complete(std::span<Send* const> sends, std::span<PostedReceive* const> receives) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    pair_with_own(sends, receives);
    for (Send* send : sends)
        start(*send);
    for (PostedReceive* receive : receives)
        start(*receive);
    GPURUN_TRY(finish_together(lock, sends, receives));
    for (const Send* send : sends)
        if (send->error())
            return *send->error();
    for (const PostedReceive* receive : receives)
        if (receive->error() != nullptr)
            return *receive->error();
    return {};
}

Result<void> Messages::finish_together(EngineLock& lock, std::span<Send* const> sends,
                                       std::span<PostedReceive* const> receives) {
    share_kernel(
        [&] {
            return std::all_of(receives.begin(), receives.end(),
                               [](const PostedReceive* each) { return each->started(); });
        },
        [&] { return std::all_of(sends.begin(), sends.end(), [](const Send* each) { return each->enqueued(); }); });
    const auto done = [&] {
        const auto is_done = [](const auto* each) {
            return each->operand().captured() ? each->enqueued() : each->done();
        };
        return std::all_of(receives.begin(), receives.end(), is_done) &&
               std::all_of(sends.begin(), sends.end(), is_done);
    };
    const WaitReason reason{.kind = WaitReason::Kind::kMessages, .sends = sends, .receives = receives};
    auto waited = waiter_.wait(lock, reason, done, [&] {
        assume_engine_lock();
        return arm(sends, receives);
    });
    if (waited)
        waited = enqueue_captured(sends, receives);
    if (!waited)
        end(sends, receives);
    auto launched = core_.resources().captured_exchange.launch();
    return waited ? std::move(launched) : std::move(waited);
}

void Messages::share_kernel(base::FunctionRef<bool()> have_started, base::FunctionRef<bool()> are_enqueued) {
    if (!core_.resources().exchanges.empty() || !core_.resources().fused.empty())
        await_exchange(Peers::kLikely, have_started);
    if (core_.resources().exchanges.signals()) // whose end may be awaited in the same kernel
        await_exchange(Peers::kLikely, are_enqueued);
    batch_.launch(); // starting these may have posted sends of requests that had waited for room
}

int64_t Messages::longest_wait_ns(bool sure) { return sure ? kSureNs : kLikelyNs; }

void Messages::await_exchange(Peers put_too, base::FunctionRef<bool()> have_started) {
    if (have_started())
        return;
    const int64_t end_ns = platform::now_ns() + longest_wait_ns(put_too == Peers::kSure && waiter_.spins());
    while (!have_started() && !core_.mutex().is_wanted() && platform::now_ns() < end_ns)
        progress_.poll_all();
}

Result<void> Messages::arm(std::span<Send* const> sends, std::span<PostedReceive* const> receives) {
    for (const Send* send : sends)
        GPURUN_TRY(alarms_.set_for(*send));
    for (const PostedReceive* receive : receives)
        if (receive->made_op() != nullptr)
            GPURUN_TRY(alarms_.set_for(*receive->made_op()));
    return {};
}

// After a wait that has failed: ends what is not done.
void Messages::end(std::span<Send* const> sends, std::span<PostedReceive* const> receives) {
    const auto ended = [] { return base::Error{Status::kInternal, "the call ended before its message did"}; };
    for (Send* send : sends)
        if (!send->done())
            send->abandon(ended());
    for (PostedReceive* receive : receives)
        if (!receive->done()) {
            core_.matcher().withdraw(*receive);
            receive->op().abandon(ended());
        }
}

// --------------------------------------------------------------------------------------------------- the fast path

bool Messages::receive_now(const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived) {
    // More than a small message and its answer take (0.1 to 0.8 us). Then the call waits like all others, and makes
    // progress for the rank, and is seen in wait reports.
    constexpr int kMostLooks = 1000;
    const EngineLock lock(core_.mutex());
    if (core_.resources().trace != nullptr || !core_.matcher().is_idle(pattern.source) || batch_.is_deferring())
        return false;
    batch_.forget_starts();
    transfer::Peer& from = core_.peer(pattern.source);
    transfer::PeerChannel& channel = from.channel();
    int looks = waiter_.spins() && !from.to_self() ? kMostLooks : 1;
    std::span<const std::byte> payload;
    const transfer::Record* record = channel.front(payload);
    for (; record == nullptr; record = channel.front(payload))
        if (--looks == 0 || lock.is_wanted())
            return false;
    if (record->kind != transfer::RecordKind::kMessage || record->protocol != transfer::InlinePart::kProtocol ||
        !pattern.fits(pattern.source, record->envelope))
        return false;
    ret_arrived = Arrived{pattern.rank_of(pattern.source), record->envelope.tag, record->envelope.bytes};
    transfer::take_inline(from, payload, into);
    channel.pop();
    ++from.count_in.messages;
    core_.count_change();
    return true;
}

// ---------------------------------------------------------------------------------------------------------- scratch

Result<transfer::ScratchPool::Block*> Messages::take_scratch(transfer::ScratchPool::Kind kind, size_t bytes,
                                                             const Operand& order) {
    const EngineLock lock(core_.mutex());
    return core_.resources().pools.scratch.take(kind, bytes, order);
}

void Messages::give_back(transfer::ScratchPool::Block& scratch, const Operand& order) {
    const EngineLock lock(core_.mutex());
    core_.resources().pools.scratch.give_back(scratch, order);
}

// ----------------------------------------------------------------------------------------------------------- probes

Result<std::optional<Messages::Found>> Messages::probe(const Pattern& pattern, bool may_wait, uint64_t* ret_taken) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    std::optional<Found> found;
    const auto met = [&] {
        assume_engine_lock();
        if (const Unexpected* const message = core_.matcher().peek(pattern))
            found = Found{message->source, message->record.envelope};
        return found || failure_.is_hopeless(pattern);
    };
    if (may_wait) {
        waiter_.wait(lock, WaitReason{.kind = WaitReason::Kind::kProbe, .pattern = &pattern}, met);
    } else if (!met()) {
        (void)progress_.run();
        (void)met();
    }
    if (!found && (may_wait ? failure_.is_hopeless(pattern) : failure_.is_lost(pattern)))
        return failure_.why_hopeless(pattern);
    if (found && ret_taken != nullptr) {
        *ret_taken = core_.matcher().take(pattern);
        if (const Communicator* const comm = core_.communicators().of_context(pattern.context))
            comm->hold();
    }
    return found;
}

const Communicator* Messages::communicator_of_taken(uint64_t number) {
    const EngineLock lock(core_.mutex());
    const Unexpected* const message = core_.matcher().find_taken(number);
    return message != nullptr ? core_.communicators().of_context(message->record.envelope.context) : nullptr;
}

Result<void> Messages::receive_taken(uint64_t number, PostedReceive& receive) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    start_taken(number, receive);
    PostedReceive* const receives[] = {&receive};
    GPURUN_TRY(finish_together(lock, {}, receives));
    return receive.error() != nullptr ? Result<void>(*receive.error()) : Result<void>();
}

} // namespace gpurun::comm
