// Engine::describe(): what a rank's threads wait for, and what lies there that nobody takes, for who asks.
//
// By a thread that is in no call. It takes the engine lock for a short time, wakes nobody and asks the device nothing,
// so that it answers while streams are blocked; and it moves no message, so that who looks does not change what there
// is to see. Small receives that wait become requests (Matcher::promote_all()), which take their messages all the same.
#include "comm/engine.hpp"

#include "platform/clock.hpp"
#include "platform/known_threads.hpp"

#include <algorithm>

namespace gpurun::comm {

namespace standing = platform::standing;
using platform::RankState;
using standing::End;
using standing::Entry;
using standing::Topic;
using standing::What;

namespace {

static_assert(kAnySource == standing::kAnySource && kAnyTag == standing::kAnyTag);

constexpr std::chrono::milliseconds kLongestLook(200); // for the lock
constexpr size_t kMostLookedAt = 10'000;               // requests and messages: about a millisecond

// Contexts of collectives are odd (comm/communicator.hpp).
void add_context(Entry& entry, uint32_t context) {
    if ((context & 1) != 0)
        entry.flags |= standing::kCollective;
    if ((context & transfer::kCapturedContexts) != 0)
        entry.flags |= standing::kCaptured;
}

Entry entry_of(Topic topic, const transfer::Outgoing& send) {
    Entry entry = send.situation();
    entry.topic = topic;
    add_context(entry, send.context());
    return entry;
}

Entry entry_of(Topic topic, const Receive& receive) {
    Entry entry = receive.incoming.situation();
    entry.topic = topic;
    const bool matched = receive.incoming.started();
    entry.peer = matched ? receive.source : receive.pattern.source;
    entry.tag = matched ? receive.envelope.tag : receive.pattern.tag;
    add_context(entry, receive.pattern.context);
    return entry;
}

Entry entry_of(Topic topic, const Request& request) {
    return request.send ? entry_of(topic, *request.send) : entry_of(topic, *request.receive);
}

// What a thread waits for: all of it counted, the first of it kept.
class List {
  public:
    List(std::vector<Entry>& entries, size_t most) : entries_(entries), most_(most) {}

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

// Calls that threads are in which do not wait for messages, or have not done so for long.
uint32_t describe_calls(std::vector<Entry>& entries, const base::List<Waiter, Waits>* waiters) {
    List threads(entries,
                 standing::kMostThreads - (waiters != nullptr ? std::min(waiters->size(), standing::kMostThreads) : 0));
    platform::visit_known_threads([&](const platform::KnownThread& known) {
        if (waiters != nullptr &&
            waiters->find([&](const Waiter& waiter) { return waiter.thread == known.id; }) != nullptr)
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

} // namespace

// Of a message that has not come: as a Request, which describe() has made of it.
const Request* Engine::awaited_by_name(uint64_t name) {
    const Named* const named = requests_.find(name);
    const Request* const request = named == nullptr ? nullptr : named->request;
    return request != nullptr && request->active && request->under_way() && !request->done() ? request : nullptr;
}

void Engine::describe(const Waiter& waiter, std::vector<Entry>& entries) {
    const Awaiting& what = waiter.what;
    const size_t place = entries.size();
    Entry thread;
    thread.topic = Topic::kThread;
    thread.thread = waiter.thread;
    thread.since_ns = waiter.since_ns;
    thread.flags = what.any ? standing::kAny : 0;
    const auto has_news = [](const auto& link) { return !link->consumer.empty(); };
    if (std::any_of(links_.begin(), links_.end(), has_news))
        thread.flags |= standing::kNews;
    thread.done = changes_;
    if (waiter.call != nullptr)
        thread.call_it(waiter.call);
    entries.push_back(thread);

    List awaited(entries, standing::kMostAwaited);
    for (const transfer::Outgoing* send : what.sends)
        if (!send->done())
            awaited.add(entry_of(Topic::kAwaited, *send));
    if (what.receive != nullptr && !what.receive->incoming.done())
        awaited.add(entry_of(Topic::kAwaited, *what.receive));
    for (const Request* request : what.requests)
        if (request != nullptr && request->active && request->under_way() &&
            !(what.into_stream ? request->enqueued() : request->done()))
            awaited.add(entry_of(Topic::kAwaited, *request));
    for (const uint64_t name : what.names)
        if (const Request* request = awaited_by_name(name))
            awaited.add(entry_of(Topic::kAwaited, *request));
    if (what.kind == Awaiting::Kind::kOwnMessages) {
        moving_out_.for_each([&](const transfer::Outgoing& send) { awaited.add(entry_of(Topic::kAwaited, send)); });
        const auto add = [&](const transfer::Incoming& incoming) {
            Entry entry = incoming.situation();
            entry.topic = Topic::kAwaited;
            entry.peer = static_cast<int32_t>(incoming.link()->peer);
            entry.tag = kAnyTag;
            awaited.add(entry);
        };
        moving_in_.for_each(add);
        for (const auto& link : links_)
            link->to_share.for_each(add);
    }
    Entry entry;
    entry.topic = Topic::kAwaited;
    if (what.pattern != nullptr) {
        entry.what = What::kProbe;
        entry.state = standing::State::kUnmatched;
        entry.peer = what.pattern->source;
        entry.tag = what.pattern->tag;
        awaited.add(entry);
    }
    if (what.handle != nullptr || what.kind == Awaiting::Kind::kStream || what.kind == Awaiting::Kind::kEvent) {
        entry.what = what.kind == Awaiting::Kind::kEvent ? What::kEvent : What::kStream;
        entry.state = standing::State::kDevice;
        entry.bytes = reinterpret_cast<uintptr_t>(what.handle);
        awaited.add(entry);
    }
    for (uint32_t peer = 0; what.step != 0 && peer < size(); ++peer) {
        const platform::RankRecord& record = context_.job.rank(peer);
        if (record.leaving.load(std::memory_order_acquire) >= what.step ||
            record.state.load(std::memory_order_acquire) == static_cast<uint32_t>(RankState::kDead))
            continue;
        entry.what = What::kRank;
        entry.peer = static_cast<int32_t>(peer);
        awaited.add(entry);
    }
    entries[place].number = awaited.number();
}

void Engine::describe_requests(std::vector<Entry>& entries, End& end) {
    std::vector<const Request*> awaited;
    waiters_.for_each([&](const Waiter& waiter) {
        awaited.insert(awaited.end(), waiter.what.requests.begin(), waiter.what.requests.end());
        for (const uint64_t name : waiter.what.names)
            awaited.push_back(awaited_by_name(name));
    });
    std::sort(awaited.begin(), awaited.end());
    List unawaited(entries, standing::kMostUnawaited);
    const bool all = requests_.for_each(kMostLookedAt, [&](const Request& request) {
        if (request.active && request.under_way() && !request.done() &&
            !std::binary_search(awaited.begin(), awaited.end(), &request))
            unawaited.add(entry_of(Topic::kUnawaited, request));
    });
    end.unawaited = unawaited.number();
    if (!all)
        end.flags &= ~standing::kLookedAll;
}

// Those come first that nearly fit what is waited for: by them, who waits in vain finds out why.
void Engine::describe_unexpected(std::vector<Entry>& entries, End& end) const {
    std::vector<Entry> near;
    std::vector<Entry> others;
    List first(near, standing::kMostUnexpected);
    List rest(others, standing::kMostUnexpected);
    const bool all = matcher_.for_each_unexpected(kMostLookedAt, [&](int source, const transfer::Envelope& envelope) {
        Entry entry;
        entry.topic = Topic::kUnexpected;
        entry.what = What::kReceive;
        entry.peer = source;
        entry.tag = envelope.tag;
        entry.bytes = envelope.bytes;
        add_context(entry, envelope.context);
        const bool nearly_fits = std::any_of(entries.begin(), entries.end(), [&](const Entry& wanted) {
            return wanted.topic == Topic::kAwaited && (wanted.what == What::kReceive || wanted.what == What::kProbe) &&
                   (wanted.peer == entry.peer || wanted.tag == entry.tag);
        });
        (nearly_fits ? first : rest).add(entry);
    });
    near.insert(near.end(), others.begin(), others.end());
    near.resize(std::min(near.size(), standing::kMostUnexpected));
    entries.insert(entries.end(), near.begin(), near.end());
    end.unexpected = first.number() + rest.number();
    if (!all)
        end.flags &= ~standing::kLookedAll;
}

// Streams of this rank in which something waits for what the peer's stream has not come to.
void Engine::describe_held(std::vector<Entry>& entries, End& end) const {
    List held(entries, standing::kMostHeld);
    for (const auto& each : links_)
        each->for_each_held([&](transfer::Edge edge, uint32_t slot, const transfer::InFlight& waits, uint64_t come_to) {
            Entry entry;
            entry.topic = Topic::kHeld;
            entry.what = edge == transfer::Edge::kForward ? What::kReceive : What::kSend;
            entry.state = standing::State::kEdge;
            entry.flags = standing::kOnStream | standing::kPeerEdge |
                          (edge == transfer::Edge::kBackward ? standing::kBackward : 0);
            entry.peer = static_cast<int32_t>(each->peer);
            entry.bytes = reinterpret_cast<uintptr_t>(waits.stream.native);
            entry.slot = slot;
            entry.done = come_to;
            entry.all = waits.value;
            held.add(entry);
        });
    end.held = held.number();
}

// What the device itself has said: nobody else knows how far graphs are.
void Engine::describe_graphs(std::vector<Entry>& entries, End& end) const {
    List waiting(entries, standing::kMostGraphs);
    const int64_t now_ns = platform::now_ns();
    for (const auto& each : links_)
        each->channels.for_each_captured([&](const transfer::Channels::Captured& message) {
            const uint64_t runs = message.wait->runs.load(std::memory_order_acquire); // with the times
            if (runs == 0)
                return;
            const auto since_ns = static_cast<int64_t>(message.wait->since_ns.load(std::memory_order_relaxed));
            const auto waited_ns = static_cast<int64_t>(message.wait->waited_ns.load(std::memory_order_relaxed));
            Entry entry;
            entry.topic = Topic::kGraph;
            entry.what = message.sent ? What::kSend : What::kReceive;
            entry.state = standing::State::kRun;
            entry.flags = standing::kOnStream;
            entry.since_ns = since_ns != 0 ? since_ns : now_ns - waited_ns;
            entry.peer = static_cast<int32_t>(each->peer);
            entry.tag = message.envelope.tag;
            entry.bytes = message.envelope.bytes;
            entry.all = runs;
            entry.call_it(transfer::kPathNames[static_cast<size_t>(message.choice.path)]);
            add_context(entry, message.envelope.context | transfer::kCapturedContexts);
            waiting.add(entry);
        });
    end.graphs = waiting.number();
}

End Engine::describe(std::vector<Entry>& entries) {
    entries.clear();
    entries.reserve(standing::kMostEntries); // before the lock
    End end;
    if (!mutex_.try_lock_for(kLongestLook)) {
        end.phase = standing::Phase::kBusy;
        end.threads = describe_calls(entries, nullptr);
        return end;
    }
    const Lock lock(mutex_, std::adopt_lock);
    end.phase = context_.job.rank(rank()).leaving.load(std::memory_order_acquire) != 0 ? standing::Phase::kFinalizing
                                                                                       : standing::Phase::kRunning;
    end.flags = matcher_.promote_all(kMostLookedAt) ? standing::kLookedAll : 0;
    waiters_.for_each([&](const Waiter& waiter) {
        if (end.threads++ < standing::kMostThreads)
            describe(waiter, entries);
    });
    end.threads += describe_calls(entries, &waiters_);
    describe_requests(entries, end);
    describe_unexpected(entries, end);
    describe_held(entries, end);
    describe_graphs(entries, end);
    return end;
}

} // namespace gpurun::comm
