#include "comm/engine.hpp"

#include "base/format.hpp"
#include "platform/job_session.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Outgoing;

namespace {

constexpr int64_t kSpinUs = 1000; // longer than most messages take; sleeping and being woken costs 50 to 150 us

int64_t spin_ns(const base::Settings& settings, const platform::JobHeader& job) {
    if (settings.spin_us)
        return *settings.spin_us * 1000;
    return job.size > job.cores ? 0 : kSpinUs * 1000;
}

} // namespace

Result<std::unique_ptr<Engine>> Engine::start(device::Device& device, const platform::JobSegment& job,
                                              const base::Settings& settings, uint32_t rank, transfer::Probe probe) {
    std::unique_ptr<Engine> engine(new Engine(device, job, settings, rank, std::move(probe)));
    for (uint32_t peer = 0; peer < job.size(); ++peer) {
        GPURUN_ASSIGN(std::unique_ptr<transfer::Link> link, transfer::Link::open(engine->context_, peer));
        engine->links_.push_back(std::move(link));
    }
    return engine;
}

Engine::Engine(device::Device& device, const platform::JobSegment& job, const base::Settings& settings, uint32_t rank,
               transfer::Probe probe)
    : context_(device, job, settings, rank), probe_(std::move(probe)), matcher_(job.size()),
      spin_ns_(spin_ns(settings, job.header())) {}

Engine::~Engine() = default;

Result<void> Engine::complete(std::span<Outgoing* const> sends, Receive* receive) {
    Lock lock(mutex_);
    begin(sends, receive);
    const auto done = [&] {
        return (receive == nullptr || receive->incoming.done()) &&
               std::all_of(sends.begin(), sends.end(), [](const Outgoing* send) { return send->done(); });
    };
    auto waited = wait(lock, done, [&] { return arm(sends, receive); });
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
    if (receive != nullptr) {
        receives_.push_back(receive);
        matcher_.post(*receive, links_);
        const int source = receive->pattern.source;
        const bool hopeless = source == kAnySource ? all_others_lost() : link(source).lost;
        if (hopeless && !receive->incoming.started())
            receive->incoming.fail(died(source));
    }
    for (Outgoing* send : sends) {
        sends_.push_back(send);
        transfer::Link& to = link(static_cast<int>(send->link().peer));
        if (context_.job.is_gone(to.peer)) {
            send->fail(died(static_cast<int>(send->link().peer)));
            continue;
        }
        to.unposted.push_back(send);
        post_waiting(to);
    }
}

void Engine::end(std::span<Outgoing* const> sends, Receive* receive) {
    const base::Error ended{Status::kInternal, "the call ended before its message did"}; // a wait has failed
    for (Outgoing* send : sends) {
        std::erase(sends_, send);
        if (!send->done())
            send->fail(ended);
    }
    if (receive != nullptr) {
        std::erase(receives_, receive);
        matcher_.withdraw(*receive);
        if (!receive->incoming.done())
            receive->incoming.fail(ended);
    }
}

void Engine::forget(const device::Buffer& buffer) {
    const Lock lock(mutex_);
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
    GPURUN_ASSIGN(const device::Event event, context_.device.create_event());
    const auto lost_here = [&] { return std::find(lost_streams_.begin(), lost_streams_.end(), stream.native); };
    Result<void> result = context_.device.record(event, stream);
    if (result)
        result = wait(
            lock,
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
        return {};
    if (stuck_) // for ever: said each time
        return base::error(Status::kPeerLost, "a message in this stream was cut short by the death of its rank, and "
                                              "the stream stays blocked: this device's event fence cannot be released. "
                                              "Use another stream, or GPURUN_FENCE=counter");
    lost_streams_.erase(lost);
    return base::error(Status::kPeerLost, "a message in this stream was cut short by the death of its rank; its "
                                          "buffer's contents are undefined");
}

Result<void> Engine::synchronize(device::Event event) {
    Lock lock(mutex_);
    Result<void> result;
    auto waited = wait(
        lock,
        [&] {
            auto done = context_.device.query(event);
            if (!done)
                result = std::move(done).error();
            return !result || *done;
        },
        [&] { return set_alarm(transfer::Awaited::event_of(event)); });
    return waited ? std::move(result) : std::move(waited);
}

// Two steps, each passed when every rank that lives has come to it: nobody unmaps what a peer still sends from, and
// nobody frees what a peer has mapped.
Result<void> Engine::close() {
    Lock lock(mutex_);
    wait_for_all(lock, 1);
    lock.unlock();
    if (stuck_) { // nothing may be waited for or taken down: it goes with the process
        lock.lock();
        wait_for_all(lock, 3);
        return base::error(Status::kPeerLost, "a rank died before a message with it had moved; a stream stays blocked");
    }
    Result<void> result = context_.device.synchronize_all();
    lock.lock();
    for (auto& each : links_) {
        if (each->imports) {
            if (auto closed = each->imports->close_all(); !closed && result)
                result = std::move(closed);
        }
    }
    wait_for_all(lock, 2);
    for (auto& each : links_)
        if (auto closed = each->close(); !closed && result)
            result = std::move(closed);
    wait_for_all(lock, 3);
    links_.clear();
    for (Alarm& alarm : alarms_)
        (void)context_.device.destroy_stream(alarm.stream); // waits until it has rung
    alarms_.clear();
    probe_.reset();
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
    return text;
}

} // namespace gpurun::comm
