#include "comm/engine.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "platform/job_session.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Outgoing;

namespace {

// Longer than most messages take. Sleeping, and being woken by an alarm, costs 50 to 150 us on each side: a window of
// 1 GiB on NVLink lost a fifth of its bandwidth by it. What emulates a device needs the cores itself.
constexpr int64_t kSpinUs = 10'000;
constexpr int64_t kSpinEmulatedUs = 1000;

int64_t spin_ns(const base::Settings& settings, const platform::JobHeader& job, device::Kind kind) {
    if (settings.spin_us)
        return *settings.spin_us * 1000;
    if (job.size > job.cores)
        return 0;
    return (kind == device::Kind::kCuda ? kSpinUs : kSpinEmulatedUs) * 1000;
}

} // namespace

void describe_messages(platform::TraceHeader& header) {
    transfer::name_paths(header);
    header.copy_context = kCopyContext;
    header.collective_contexts = Communicator{kWorldId, 0, 1}.collective_context() & 1;
}

Result<std::unique_ptr<Engine>> Engine::start(device::Device& device, const platform::JobSegment& job,
                                              const base::Settings& settings, uint32_t rank, transfer::Probe probe,
                                              transfer::Workspace workspace, platform::TraceBuffer* trace,
                                              const device::RunLog& runs) {
    std::unique_ptr<Engine> engine(
        new Engine(device, job, settings, rank, std::move(probe), std::move(workspace), trace, runs));
    GPURUN_TRY(device.reserve_urgent_streams(transfer::Context::kReservedStreams + kMostAlarms));
    for (uint32_t peer = 0; peer < job.size(); ++peer) {
        GPURUN_ASSIGN(std::unique_ptr<transfer::Link> link, transfer::Link::open(engine->context_, peer));
        if (job.size() <= transfer::kMostOpened)
            link->open_outbox();
        engine->links_.push_back(std::move(link));
    }
    return engine;
}

Engine::Engine(device::Device& device, const platform::JobSegment& job, const base::Settings& settings, uint32_t rank,
               transfer::Probe probe, transfer::Workspace workspace, platform::TraceBuffer* trace,
               const device::RunLog& runs)
    : workspace_(std::move(workspace)), context_(device, job, settings, rank, *workspace_, trace, runs),
      probe_(std::move(probe)),
      matcher_(job.size(),
               [this](ShortReceive& each) -> Receive& { return *promote(static_cast<Named&>(each)).receive; }),
      spin_ns_(spin_ns(settings, job.header(), device.info().identity.kind)),
      background_wanted_(settings.progress_thread) {
    context_.keep_still = [this] { return keep_still(); };
}

Engine::~Engine() {
    Lock lock(mutex_);
    stop_background(lock);
}

Result<void> Engine::complete(std::span<Outgoing* const> sends, Receive* receive) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    begin(sends, receive);
    return wait_and_end(lock, sends, receive);
}

Result<void> Engine::check_captured(int peer, const transfer::Operand& operand) {
    return operand.captured ? link(peer).channels.check(operand) : Result<void>();
}

Result<void> Engine::join(Outgoing& send, device::Stream stream) {
    const Lock lock(mutex_);
    return send.join(stream);
}

bool Engine::send_small(int dest, const transfer::Operand& operand, const transfer::Envelope& envelope,
                        transfer::SendMode mode) {
    if (!Outgoing::fits_inline(context_, operand, mode))
        return false;
    return send_short(dest, operand.address, envelope);
}

Result<void> Engine::wait_and_end(Lock& lock, std::span<Outgoing* const> sends, Receive* receive) {
    const auto done = [&] {
        return (receive == nullptr || receive->incoming.done()) &&
               std::all_of(sends.begin(), sends.end(), [](const Outgoing* send) { return send->done(); });
    };
    const Awaiting what{.kind = Awaiting::Kind::kMessages, .sends = sends, .receive = receive};
    auto waited = wait(lock, what, done, [&] { return arm(sends, receive); });
    end(sends, receive);
    if (!waited)
        return waited;
    for (Outgoing* send : sends)
        if (send->error())
            return std::move(*send->error());
    if (receive != nullptr && receive->incoming.error())
        return std::move(*receive->incoming.error());
    return {};
}

void Engine::begin(std::span<Outgoing* const> sends, Receive* receive) {
    // The receive first: what it takes may have arrived, and its buffer is ready.
    if (receive != nullptr)
        begin(*receive);
    for (Outgoing* send : sends)
        begin(*send);
    launch_mails(); // of requests that have found no room before
}

void Engine::begin(Outgoing& send) {
    transfer::Link& to = link(static_cast<int>(send.link().peer));
    if (context_.job.is_gone(to.peer)) {
        send.fail(died(static_cast<int>(to.peer)));
        return;
    }
    to.unposted.push_back(send);
    post_waiting(to);
    if (!base::List<Outgoing, transfer::Unposted>::has(send))
        return;
    send.note_held_up();
    if (auto kept = send.keep_place(); !kept)
        send.fail(std::move(kept).error());
}

void Engine::begin(Receive& receive) {
    // Before it waits for a message that could not be taken.
    if (auto checked = check_captured(receive.pattern.source, receive.incoming.operand()); !checked) {
        receive.incoming.fail(std::move(checked).error());
        return;
    }
    if (matcher_.post(receive, links_)) {
        watch(receive.incoming);
    } else if (hopeless(receive.pattern)) {
        matcher_.withdraw(receive);
        receive.incoming.fail(died(receive.pattern.source));
    } else if (auto kept = receive.incoming.keep_place(); !kept) {
        matcher_.withdraw(receive);
        receive.incoming.fail(std::move(kept).error());
    }
}

void Engine::begin_taken(uint64_t number, Receive& receive) {
    matcher_.start_taken(number, receive, links_);
    watch(receive.incoming);
}

void Engine::end(std::span<Outgoing* const> sends, Receive* receive) {
    const auto ended = [] { return base::Error{Status::kInternal, "the call ended before its message did"}; };
    for (Outgoing* send : sends) {
        if (!send->done())
            send->abandon(ended()); // a wait has failed
        moving_out_.remove(*send);
    }
    if (receive != nullptr) {
        matcher_.withdraw(*receive);
        if (!receive->incoming.done())
            receive->incoming.abandon(ended());
        moving_in_.remove(receive->incoming);
    }
}

void Engine::watch(Outgoing& send) {
    using List = base::List<Outgoing, transfer::Moving>;
    if (send.moving() && !List::has(send))
        moving_out_.push_back(send);
}

void Engine::watch(transfer::Incoming& incoming) {
    using List = base::List<transfer::Incoming, transfer::Moving>;
    if (incoming.moving() && !List::has(incoming))
        moving_in_.push_back(incoming);
}

bool Engine::graphs_in_job() {
    for (uint32_t each = 0; each < size() && !graphs_in_job_; ++each)
        graphs_in_job_ = context_.job.rank(each).captures.load(std::memory_order_relaxed) != 0;
    return graphs_in_job_;
}

transfer::Still Engine::keep_still() {
    if (!graphs_in_job())
        return transfer::Still(std::in_place);
    // A stream by a message, which may stand behind a graph of its rank's; one of our own, for a thread that sleeps.
    bool held = std::any_of(alarms_.begin(), alarms_.end(), [](const Alarm& alarm) {
        return !alarm.awaited.on_event && !alarm.rung.load(std::memory_order_acquire);
    });
    for (const auto& each : links_)
        each->for_each_held([&](auto&&...) { held = true; });
    if (held)
        return std::nullopt;
    std::unique_lock still = context_.device.keep_graphs_still();
    return still ? transfer::Still(std::move(still)) : std::nullopt;
}

Result<void> Engine::now_or_later(base::FunctionRef<Result<void>()> now, base::FunctionRef<Result<void>()> later) {
    {
        const Lock lock(mutex_);
        if (graphs_in_job()) { // under the lock, so that no message gets between
            if (const transfer::Still still = keep_still())
                return now();
            GPURUN_TRY(later());
            freed_later_ = true;
            return {};
        }
    }
    return now();
}

Result<void> Engine::free(const device::Buffer& buffer, void* pointer) {
    if (buffer.placement == device::Placement::kDevice && buffer.base == pointer) {
        const Lock lock(mutex_);
        forget(buffer);
    }
    device::Device& device = context_.device;
    const bool pinned = buffer.placement == device::Placement::kPinned;
    return now_or_later([&] { return pinned ? device.free_pinned(pointer) : device.free(pointer); },
                        [&] { return device.free_later(pointer); });
}

Result<void> Engine::destroy(device::Graph graph) {
    device::Device& device = context_.device;
    return now_or_later(
        [&] {
            context_.graphs_end_by_ns = platform::now_ns() + transfer::Context::kGraphEndsWithinNs;
            return device.destroy_graph(graph);
        },
        [&] {
            context_.graphs_end_by_ns = transfer::Context::kGraphsLeft;
            return device.destroy_graph_later(graph);
        });
}

void Engine::give_back_freed() {
    if (!freed_later_)
        return;
    const transfer::Still still = keep_still();
    if (!still)
        return;
    freed_later_ = false;
    if (context_.graphs_end_by_ns == transfer::Context::kGraphsLeft)
        context_.graphs_end_by_ns = platform::now_ns() + transfer::Context::kGraphEndsWithinNs;
    context_.device.give_back();
}

bool Engine::reclaim() {
    const Lock lock(mutex_);
    const bool was_freed = freed_later_;
    (void)progress();
    return was_freed && !freed_later_;
}

void Engine::forget(const device::Buffer& buffer) {
    const std::vector<bool> given = context_.exports.forget(buffer.id);
    for (size_t peer = 0; peer < given.size(); ++peer) {
        if (!given[peer] || links_[peer]->lost)
            continue;
        transfer::Record record{};
        record.kind = transfer::RecordKind::kRevoke;
        record.revoked_id = buffer.id;
        links_[peer]->tell(record);
    }
}

Result<void> Engine::synchronize(device::Stream stream) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    GPURUN_ASSIGN(const device::Event event, context_.device.create_event());
    const auto lost_here = [&] { return std::find(lost_streams_.begin(), lost_streams_.end(), stream.native); };
    Result<void> result = context_.device.record(event, stream);
    const Awaiting what{.kind = Awaiting::Kind::kStream, .handle = stream.native};
    if (result)
        result = wait(
            lock, what,
            [&] {
                if (stuck_ && lost_here() != lost_streams_.end())
                    return true;
                auto done = context_.device.query(event);
                if (!done)
                    result = std::move(done).error();
                return !result || (*done && !losing());
            },
            [&] { return set_alarm(transfer::Awaited::event_of(event)); });
    (void)context_.device.destroy_event(event);
    if (!result)
        return result;
    const auto lost = lost_here();
    if (lost == lost_streams_.end())
        return check_graphs();
    if (stuck_) // for ever: said each time
        return base::error(Status::kPeerLost, "a message in this stream was cut short by the death of its rank, and "
                                              "the stream stays blocked: this device's event fence cannot be released. "
                                              "Use another stream, or GPURUN_FENCE=counter");
    lost_streams_.erase(lost);
    return base::error(Status::kPeerLost, "a message in this stream was cut short by the death of its rank; its "
                                          "buffer's contents are undefined");
}

// A graph's messages are cut short where no host looks. Whose stream it was, nobody knows.
Result<void> Engine::check_graphs() {
    for (const auto& each : links_) {
        if (!each->lost || !context_.cut_marks.collect(each->peer))
            continue;
        cut_short_ = true;
        return base::error(Status::kPeerLost,
                           "a graph's message with rank {} was cut short by the death of that rank; "
                           "its buffer's contents are undefined",
                           each->peer);
    }
    return {};
}

Result<void> Engine::synchronize(device::Event event) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    return wait_for(lock, Awaiting{.kind = Awaiting::Kind::kEvent, .handle = event.native}, event);
}

Result<void> Engine::run_for_host(base::FunctionRef<Result<void>(device::Stream)> work) {
    Lock lock(mutex_);
    const Attendance attendance(*this);
    GPURUN_ASSIGN(const device::Stream stream, context_.streams.brief());
    GPURUN_TRY(work(stream));
    GPURUN_ASSIGN(const device::Event end, context_.events.mark(stream));
    auto waited = wait_for(lock, Awaiting{.kind = Awaiting::Kind::kStream, .handle = stream.native}, end);
    context_.events.give_back(end);
    return waited;
}

Result<void> Engine::wait_for(Lock& lock, const Awaiting& what, device::Event event) {
    Result<void> result;
    auto waited = wait(
        lock, what,
        [&] {
            auto done = context_.device.query(event);
            if (!done)
                result = std::move(done).error();
            return !result || *done;
        },
        [&] { return set_alarm(transfer::Awaited::event_of(event)); });
    return waited ? std::move(result) : std::move(waited);
}

// Steps, each passed when every rank that lives has come to it. All is sent before the first, and what has a receive is
// matched before the second, so that both sides of a message agree whether it is; nobody unmaps what a peer still sends
// from; and nobody frees what a peer has mapped.
Result<void> Engine::close() {
    Lock lock(mutex_);
    const Awaiting own{.kind = Awaiting::Kind::kOwnMessages};
    const auto none = [&](auto busy) { return std::none_of(links_.begin(), links_.end(), busy); };
    const auto sent = [&] { return none([](const auto& each) { return !each->unposted.empty(); }); };
    const auto answered = [&] { return none([](const auto& each) { return !each->lost && !each->has_told(); }); };
    end_row();
    (void)wait(lock, own, sent, [] { return Result<void>(); });
    wait_for_all(lock, 1);
    (void)progress();
    end_receives();
    (void)wait(lock, own, answered, [] { return Result<void>(); });
    wait_for_all(lock, 2);
    (void)progress(); // what peers have answered
    end_sends();
    const auto moved = [&] {
        return moving_out_.empty() && moving_in_.empty() &&
               none([](const auto& each) { return !each->unanswered.empty(); });
    };
    (void)wait(
        lock, own, [&] { return stuck_ || moved(); }, [&] { return arm_ends(); });
    reap_abandoned();
    stop_background(lock);
    lock.unlock();
    if (stuck_) { // nothing may be waited for or taken down: it goes with the process
        lock.lock();
        wait_for_all(lock, 4);
        return base::error(Status::kPeerLost, "a rank died before a message with it had moved; a stream stays blocked");
    }
    Result<void> result = context_.device.synchronize_all();
    lock.lock();
    context_.device.give_back();
    (void)check_graphs();
    for (auto& each : links_) {
        each->channels.let_go();
        if (auto closed = each->outbox.close(); !closed && result)
            result = std::move(closed);
        if (each->imports) {
            if (auto closed = each->imports->close_all(); !closed && result)
                result = std::move(closed);
        }
    }
    wait_for_all(lock, 3);
    for (auto& each : links_)
        if (auto closed = each->close(); !closed && result)
            result = std::move(closed);
    wait_for_all(lock, 4);
    links_.clear();
    for (Alarm& alarm : alarms_)
        (void)context_.device.destroy_stream(alarm.stream); // waits until it has rung
    alarms_.clear();
    probe_.reset();
    workspace_.reset();
    if (result && cut_short_)
        return base::error(Status::kPeerLost, "a rank died before a message with it had moved");
    return result;
}

std::string Engine::report() const {
    std::string text;
    const auto lines = [&](const transfer::Tally& tally, const char* direction, uint32_t peer) {
        for (size_t path = 0; path < transfer::kPaths; ++path) {
            for (size_t reason = 0; reason < transfer::kReasons; ++reason) {
                const auto& entry = tally.at(path, reason);
                if (entry.messages != 0)
                    text += base::format("gpurun: rank {} {} {}: {} ({}): {} messages, {} bytes\n", rank(), direction,
                                         peer, transfer::kPathNames[path], transfer::kReasonTexts[reason],
                                         entry.messages, entry.bytes);
            }
        }
    };
    for (const auto& each : links_) {
        lines(each->sent, "to", each->peer);
        lines(each->received, "from", each->peer);
    }
    const auto& sent = context_.mails.sent();
    const auto& received = context_.mails.received();
    if (sent.mails + received.mails != 0)
        text += base::format("gpurun: rank {}: small messages that shared kernels: {} sent by {}, {} received by {}\n",
                             rank(), sent.mails, sent.launches, received.mails, received.launches);
    return text;
}

} // namespace gpurun::comm
