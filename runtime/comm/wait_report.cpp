#include "comm/wait_report.hpp"

#include "platform/clock.hpp"
#include "platform/known_threads.hpp"
#include "transfer/protocol/graph.hpp"
#include "transfer/protocol_table.hpp"

#include <algorithm>

namespace gpurun::comm {

namespace wait_report = platform::wait_report;
using wait_report::Topic;
using wait_report::What;
using Entry = wait_report::Entry;

namespace {

static_assert(kAnySource == wait_report::kAnySource && kAnyTag == wait_report::kAnyTag);

constexpr std::chrono::milliseconds kLongestLook(200); // that it waits for the lock
constexpr size_t kMostLookedAt = 10'000;               // requests and messages: about a millisecond

void add_context(Entry& entry, uint32_t context, const CommunicatorTable& comms) {
    const uint32_t id = Communicator::id_of(context);
    entry.comm = id == kWorldId ? 0 : id;
    if (const Communicator* const comm = comms.of_context(context); comm != nullptr && entry.comm != 0)
        entry.name_comm(comm->name().c_str());
    if ((context & kCollectiveContexts) != 0)
        entry.flags |= wait_report::kCollective;
    if ((context & transfer::kCapturedContexts) != 0)
        entry.flags |= wait_report::kCaptured;
}

Entry entry_of(Topic topic, const transfer::Operation& operation, uint32_t context, const CommunicatorTable& comms) {
    Entry entry = operation.describe();
    entry.topic = topic;
    if (operation.route())
        entry.call_it(operation.resources().protocols.text_of(*operation.route()).path);
    add_context(entry, context, comms);
    return entry;
}

Entry entry_of(Topic topic, const transfer::Send& send, const CommunicatorTable& comms) {
    return entry_of(topic, send, send.envelope().context, comms);
}

Entry entry_of(Topic topic, const PostedReceive& receive, const CommunicatorTable& comms) {
    Entry entry;
    if (receive.made_op() != nullptr) {
        entry = entry_of(topic, *receive.made_op(), receive.pattern.context, comms);
    } else {
        entry.topic = topic;
        entry.what = What::kReceive;
        entry.state = wait_report::State::kUnmatched;
        entry.bytes = receive.operand().bytes;
        entry.flags = receive.operand().on_stream() ? wait_report::kOnStream : 0;
        add_context(entry, receive.pattern.context, comms);
    }
    const bool matched = receive.started();
    const int pattern_source = receive.pattern.any_source ? kAnySource : static_cast<int>(receive.pattern.source.value);
    entry.peer = matched ? static_cast<int32_t>(receive.source().value) : pattern_source;
    entry.tag = matched ? receive.envelope().tag : receive.pattern.tag;
    return entry;
}

// Counts all entries that are added, and keeps the first ones.
class BoundedList {
  public:
    BoundedList(std::vector<Entry>& entries, size_t most) : entries_(entries), most_(most) {}

    void add(const Entry& entry) {
        if (number_++ < most_)
            entries_.push_back(entry);
    }
    uint32_t number() const { return number_; }

  private:
    std::vector<Entry>& entries_;
    size_t most_;
    uint32_t number_ = 0;
};

Entry entry_of_device(Topic topic, What stream_or_event, const void* handle) {
    Entry entry;
    entry.topic = topic;
    entry.what = stream_or_event;
    entry.state = wait_report::State::kDevice;
    entry.bytes = reinterpret_cast<uintptr_t>(handle);
    return entry;
}

void add_messages(Topic topic, const CollectiveOp& collective, const CommunicatorTable& comms, BoundedList& list) {
    const auto add = [&](const auto& each) { list.add(entry_of(topic, each, comms)); };
    collective.for_each_message(add, add);
    if (const auto stream = collective.awaited_stream())
        list.add(entry_of_device(topic, What::kStream, stream->native));
    collective.for_each_absent([&](WorldRank rank, uint32_t context) {
        Entry entry;
        entry.topic = topic;
        entry.what = What::kRank;
        entry.peer = static_cast<int32_t>(rank.value);
        add_context(entry, context, comms);
        list.add(entry);
    });
}

Entry entry_of_loan(Topic topic, const transfer::Send& loan, const Request& request, const CommunicatorTable& comms) {
    Entry entry = entry_of(topic, loan, comms);
    entry.flags |= wait_report::kLoan;
    entry.since_ns = request.lent.since_ns;
    return entry;
}

void add_messages(Topic topic, const Request& request, const CommunicatorTable& comms, BoundedList& list) {
    if (request.task.kind == Task::Kind::kLend && request.collective != nullptr)
        request.collective->for_each_message(
            [&](const transfer::Send& each) { list.add(entry_of_loan(topic, each, request, comms)); },
            [](const PostedReceive&) {});
    else if (request.collective != nullptr)
        add_messages(topic, *request.collective, comms, list);
    else if (request.task.kind == Task::Kind::kLend)
        list.add(entry_of_loan(topic, *request.send, request, comms));
    else
        list.add(request.send != nullptr ? entry_of(topic, *request.send, comms)
                                         : entry_of(topic, *request.receive, comms));
}

// Threads that are in a call and not in the list of those that wait.
uint32_t describe_calls(std::vector<Entry>& entries, const base::List<WaitingCall, Waits>* waiting) {
    const size_t described = waiting != nullptr ? std::min(waiting->size(), wait_report::kMostThreads) : 0;
    BoundedList threads(entries, wait_report::kMostThreads - described);
    platform::visit_known_threads([&](const platform::KnownThread& known) {
        if (waiting != nullptr &&
            waiting->find([&](const WaitingCall& each) { return each.thread == known.id; }) != nullptr)
            return;
        Entry entry;
        entry.topic = Topic::kThread;
        entry.thread = known.id;
        entry.since_ns = known.seen_ns;
        if (known.call != nullptr)
            entry.call_it(known.call);
        threads.add(entry);
    });
    return threads.number();
}

void describe_awaited(const WaitReason& reason, Core& core, BoundedList& awaited) GPURUN_REQUIRES(engine_lock) {
    for (const transfer::Send* send : reason.sends)
        if (!send->done())
            awaited.add(entry_of(Topic::kAwaited, *send, core.communicators()));
    for (const PostedReceive* receive : reason.receives)
        if (!receive->done())
            awaited.add(entry_of(Topic::kAwaited, *receive, core.communicators()));
    if (reason.collective != nullptr)
        add_messages(Topic::kAwaited, *reason.collective, core.communicators(), awaited);
    for (const uint64_t name : reason.requests) {
        const Request* const request = core.requests().find(name);
        if (request != nullptr && request->active && request->under_way() &&
            !(reason.into_stream ? request->enqueued() : request->done()))
            add_messages(Topic::kAwaited, *request, core.communicators(), awaited);
    }
    if (reason.kind != WaitReason::Kind::kOwnMessages)
        return;
    core.requests().for_each(kMostLookedAt, [&](const Request& request) {
        if (request.active && request.under_way() && !request.done() && !request.lent.together)
            add_messages(Topic::kAwaited, request, core.communicators(), awaited);
    });
}

void describe_ranks(const WaitReason& reason, const Core& core, BoundedList& awaited) GPURUN_REQUIRES(engine_lock) {
    if (reason.step == 0)
        return;
    Entry entry;
    entry.topic = Topic::kAwaited;
    entry.what = What::kRank;
    entry.flags = core.names().engine != 0 ? wait_report::kJoint : 0;
    for (const auto& each : core.peers()) {
        if (each->channel().steps_of_leaving() >= reason.step ||
            each->channel().liveness() == transfer::Liveness::kDead)
            continue;
        entry.peer = static_cast<int32_t>(each->rank().value);
        awaited.add(entry);
    }
}

void describe_holders(const WaitReason& reason, BoundedList& awaited) {
    if (reason.kind != WaitReason::Kind::kUnmapping)
        return;
    Entry entry;
    entry.topic = Topic::kAwaited;
    entry.what = What::kRank;
    entry.flags = wait_report::kLoan;
    for (const WorldRank each : *reason.holders) {
        entry.peer = static_cast<int32_t>(each.value);
        awaited.add(entry);
    }
}

// Waits for something that is no message: a probe, a stream, an event, other ranks.
void describe_others(const WaitReason& reason, const Core& core, BoundedList& awaited) GPURUN_REQUIRES(engine_lock) {
    Entry entry;
    entry.topic = Topic::kAwaited;
    if (reason.pattern != nullptr) {
        entry.what = What::kProbe;
        entry.state = wait_report::State::kUnmatched;
        entry.peer = reason.pattern->any_source ? kAnySource : static_cast<int32_t>(reason.pattern->source.value);
        entry.tag = reason.pattern->tag;
        add_context(entry, reason.pattern->context, core.communicators());
        awaited.add(entry);
    }
    if (reason.kind == WaitReason::Kind::kStream)
        awaited.add(entry_of_device(Topic::kAwaited, What::kStream, reason.handle));
    if (reason.kind == WaitReason::Kind::kEvent)
        awaited.add(entry_of_device(Topic::kAwaited, What::kEvent, reason.handle));
    describe_ranks(reason, core, awaited);
    describe_holders(reason, awaited);
}

} // namespace

void WaitReport::describe(const WaitingCall& call, std::vector<Entry>& entries) {
    const size_t index = entries.size();
    Entry thread;
    thread.topic = Topic::kThread;
    thread.thread = call.thread;
    thread.since_ns = call.since_ns;
    thread.flags = call.reason.any ? wait_report::kAny : 0;
    if (core_.any_peer([](const transfer::Peer& peer) { return peer.channel().has_records(); }))
        thread.flags |= wait_report::kUnread;
    thread.done = core_.changes();
    if (call.call != nullptr)
        thread.call_it(call.call);
    entries.push_back(thread);
    BoundedList awaited(entries, wait_report::kMostAwaited);
    describe_awaited(call.reason, core_, awaited);
    describe_others(call.reason, core_, awaited);
    entries[index].number = awaited.number();
    mark_held_back(std::span(entries).subspan(index + 1));
}

// Such a wait may end without a call of the peer.
void WaitReport::mark_held_back(std::span<Entry> awaited) const {
    for (const auto& peer : core_.peers()) {
        if (!peer->channel().is_held_back())
            continue;
        for (Entry& each : awaited)
            if (each.peer == static_cast<int32_t>(peer->rank().value) || each.peer == kAnySource)
                each.flags |= wait_report::kHeldBack;
    }
}

void WaitReport::describe_requests(std::vector<Entry>& entries, End& end) {
    std::vector<uint64_t> awaited;
    waiter_.calls().for_each([&](const WaitingCall& call) {
        awaited.insert(awaited.end(), call.reason.requests.begin(), call.reason.requests.end());
    });
    std::sort(awaited.begin(), awaited.end());
    BoundedList unawaited(entries, wait_report::kMostUnawaited);
    const bool all = core_.requests().for_each(kMostLookedAt, [&](const Request& request) {
        if (request.active && request.under_way() && !request.done() && !request.lent.together &&
            !std::binary_search(awaited.begin(), awaited.end(), request.name))
            add_messages(Topic::kUnawaited, request, core_.communicators(), unawaited);
    });
    end.unawaited = unawaited.number();
    if (!all)
        end.flags &= ~wait_report::kLookedAll;
}

// First those that nearly fit something that is waited for (same source or tag): they tell why a call waits in vain.
void WaitReport::describe_unexpected(std::vector<Entry>& entries, End& end) const {
    std::vector<Entry> near;
    std::vector<Entry> others;
    BoundedList first(near, wait_report::kMostUnexpected);
    BoundedList rest(others, wait_report::kMostUnexpected);
    const bool all = core_.matcher().for_each_unexpected(kMostLookedAt, [&](const Unexpected& message) {
        Entry entry;
        entry.topic = Topic::kUnexpected;
        entry.what = What::kReceive;
        entry.peer = static_cast<int32_t>(message.source.value);
        entry.tag = message.record.envelope.tag;
        entry.bytes = message.record.envelope.bytes;
        add_context(entry, message.record.envelope.context, core_.communicators());
        const bool nearly_fits = std::any_of(entries.begin(), entries.end(), [&](const Entry& wanted) {
            return wanted.topic == Topic::kAwaited && (wanted.what == What::kReceive || wanted.what == What::kProbe) &&
                   (wanted.peer == entry.peer || wanted.tag == entry.tag);
        });
        (nearly_fits ? first : rest).add(entry);
    });
    near.insert(near.end(), others.begin(), others.end());
    near.resize(std::min(near.size(), wait_report::kMostUnexpected));
    entries.insert(entries.end(), near.begin(), near.end());
    end.unexpected = first.number() + rest.number();
    if (!all)
        end.flags &= ~wait_report::kLookedAll;
}

// Streams of this rank that wait for an edge that the peer has not signalled.
void WaitReport::describe_held(std::vector<Entry>& entries, End& end) const {
    BoundedList held(entries, wait_report::kMostHeld);
    for (const auto& peer : core_.peers())
        peer->for_each_held([&](transfer::Edge edge, const transfer::DependentStreams::Entry& each, uint64_t come_to) {
            Entry entry;
            entry.topic = Topic::kHeld;
            entry.what = edge == transfer::Edge::kForward ? What::kReceive : What::kSend;
            entry.state = wait_report::State::kEdge;
            entry.flags = wait_report::kOnStream | wait_report::kPeerEdge |
                          (edge == transfer::Edge::kBackward ? wait_report::kBackward : 0);
            entry.peer = static_cast<int32_t>(peer->rank().value);
            entry.bytes = each.stream ? reinterpret_cast<uintptr_t>(each.stream->native) : 0;
            entry.slot = each.slot.number();
            entry.done = come_to;
            entry.all = each.slot.value;
            held.add(entry);
        });
    end.held = held.number();
}

// Messages of graphs that wait, as their kernels say: the host does not know how far graphs are.
void WaitReport::describe_graphs(std::vector<Entry>& entries, End& end) const {
    BoundedList waiting(entries, wait_report::kMostGraphs);
    const int64_t now_ns = platform::now_ns();
    for (const auto& peer : core_.peers())
        peer->part<transfer::GraphPart>().for_each_captured([&](const transfer::GraphPart::Captured& message) {
            const uint64_t runs = message.wait->runs.load(std::memory_order_acquire); // with the times
            if (runs == 0)
                return;
            const auto since_ns = static_cast<int64_t>(message.wait->since_ns.load(std::memory_order_relaxed));
            const auto waited_ns = static_cast<int64_t>(message.wait->waited_ns.load(std::memory_order_relaxed));
            Entry entry;
            entry.topic = Topic::kGraph;
            entry.what = message.sent ? What::kSend : What::kReceive;
            entry.state = wait_report::State::kRun;
            entry.flags = wait_report::kOnStream;
            entry.since_ns = since_ns != 0 ? since_ns : now_ns - waited_ns;
            entry.peer = static_cast<int32_t>(peer->rank().value);
            entry.tag = message.envelope.tag;
            entry.bytes = message.envelope.bytes;
            entry.all = runs;
            entry.call_it(core_.resources().protocols.text_of(message.route).path);
            add_context(entry, message.envelope.context | transfer::kCapturedContexts, core_.communicators());
            waiting.add(entry);
        });
    end.graphs = waiting.number();
}

void WaitReport::name_waits(std::vector<Entry>& others, const std::string& job) {
    if (!core_.mutex().try_lock_for(kLongestLook))
        return;
    const EngineLock lock(core_.mutex(), std::adopt_lock);
    for (Entry& each : others) {
        if (each.topic != Topic::kThread || each.number != 0)
            continue;
        waiter_.calls().for_each([&](const WaitingCall& call) {
            if (call.thread != each.thread)
                return;
            each.name_comm(job.c_str());
            each.since_ns = call.since_ns;
        });
    }
}

wait_report::End WaitReport::describe(std::vector<Entry>& entries) {
    entries.clear();
    entries.reserve(wait_report::kMostEntries); // before the lock
    End end;
    if (!core_.mutex().try_lock_for(kLongestLook)) {
        end.phase = wait_report::Phase::kBusy;
        end.threads = describe_calls(entries, nullptr);
        return end;
    }
    const EngineLock lock(core_.mutex(), std::adopt_lock);
    end.phase = core_.own_record().leaving.load(std::memory_order_acquire) != 0 ? wait_report::Phase::kFinalizing
                                                                                : wait_report::Phase::kRunning;
    end.flags = wait_report::kLookedAll;
    waiter_.calls().for_each([&](const WaitingCall& call) {
        assume_engine_lock();
        if (end.threads++ < wait_report::kMostThreads)
            describe(call, entries);
    });
    end.threads += describe_calls(entries, &waiter_.calls());
    describe_requests(entries, end);
    describe_unexpected(entries, end);
    describe_held(entries, end);
    describe_graphs(entries, end);
    return end;
}

} // namespace gpurun::comm
