// Engine::wait(): spin, then sleep until something rings the rank's doorbell.
#include "comm/engine.hpp"

#include "base/current_call.hpp"
#include "platform/clock.hpp"
#include "platform/known_threads.hpp"
#include "platform/wake.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using platform::RankState;
using transfer::Awaited;
using transfer::Outgoing;

namespace {

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Whether to look once more at once. Reads the clock now and then only: calls that need not wait never do.
class Spin {
  public:
    explicit Spin(int64_t limit_ns) : limit_ns_(limit_ns) {}

    bool goes_on() {
        pause();
        if (++looks_ % kLooksPerClock != 0 && limit_ns_ != 0)
            return true;
        const int64_t now_ns = platform::now_ns();
        if (end_ns_ == 0)
            end_ns_ = now_ns + limit_ns_;
        return now_ns < end_ns_;
    }

  private:
    static constexpr uint32_t kLooksPerClock = 32;

    int64_t limit_ns_;
    int64_t end_ns_ = 0;
    uint32_t looks_ = 0;
};

// A call's place among those that wait, from the time on that it is worth telling. Under the engine lock, at both ends.
class Announcement {
  public:
    Announcement(base::List<Waiter, Waits>& waiters, const Awaiting& what) : waiters_(waiters), what_(what) {}
    ~Announcement() {
        if (waiter_)
            waiters_.remove(*waiter_);
    }
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;

    void look() {
        if (++looks_ == kFirstLooks)
            make();
    }
    void make() {
        if (waiter_)
            return;
        waiter_.emplace(what_);
        waiter_->call = base::this_call().name.load(std::memory_order_relaxed);
        waiter_->thread = platform::know_this_thread();
        waiter_->since_ns = platform::now_ns();
        waiters_.push_back(*waiter_);
    }

  private:
    static constexpr uint32_t kFirstLooks = 32; // a small message is there by then

    base::List<Waiter, Waits>& waiters_;
    const Awaiting& what_;
    std::optional<Waiter> waiter_;
    uint32_t looks_ = 0;
};

} // namespace

Result<void> Engine::wait(Lock& lock, const Awaiting& what, base::FunctionRef<bool()> done,
                          base::FunctionRef<Result<void>()> arm) {
    platform::RankRecord& self = context_.job.rank(rank());
    Spin spin(spin_ns_);
    Patience patience;
    Announcement announcement(waiters_, what);
    while (true) {
        if (done())
            return {};
        announcement.look();
        if (progress() || spin.goes_on()) {
            mutex_.yield(); // other threads of the rank get their turn
            continue;
        }
        announcement.make();
        context_.job.announce_sleeper(rank());
        ++sleeping_;
        const uint32_t seen = self.doorbell.load(std::memory_order_acquire);
        const bool moved = progress();
        Result<void> ready;
        if (!moved && !done()) {
            begin_arming();
            ready = arm();
            if (ready && any_active())
                ready = arm_moving(); // nobody waits for those in a call
            if (ready) {
                const int64_t timeout_ns = longest_sleep_ns(patience);
                lock.unlock();
                platform::sleep_while(self.doorbell, seen, timeout_ns);
                lock.lock();
            }
        }
        --sleeping_;
        self.presence.fetch_sub(platform::presence::kSleeper, std::memory_order_relaxed);
        if (!ready)
            return ready;
    }
}

int64_t Engine::longest_sleep_ns(Patience& patience) {
    bool in_doubt = false;
    moving_in_.for_each([&](const transfer::Incoming& incoming) { in_doubt |= incoming.in_doubt(); });
    if (alarm_missing_ || in_doubt)
        return kLookAgainNs;
    return alarm_set_ ? patience.next_ns(changes_) : platform::kForever;
}

Result<void> Engine::arm(std::span<Outgoing* const> sends, Receive* receive) {
    for (const Outgoing* send : sends) {
        alarm_missing_ |= send->waits_for_graphs();
        if (const auto awaited = send->awaited())
            GPURUN_TRY(set_alarm(*awaited));
    }
    if (receive != nullptr)
        if (const auto awaited = receive->incoming.awaited())
            GPURUN_TRY(set_alarm(*awaited));
    return {};
}

Result<void> Engine::set_alarm(const Awaited& awaited) {
    alarm_set_ = true;
    Alarm* unused = nullptr;
    for (Alarm& alarm : alarms_) {
        if (alarm.rung.load(std::memory_order_acquire))
            unused = &alarm;
        else if (alarm.awaited == awaited)
            return {};
    }
    if (unused == nullptr && alarms_.size() >= kMostAlarms) {
        alarm_missing_ = true;
        return {};
    }
    if (unused == nullptr) {
        GPURUN_ASSIGN(const device::Stream stream, context_.device.take_reserved_stream());
        unused = &alarms_.emplace_back(this, stream);
    }
    unused->awaited = awaited;
    GPURUN_TRY(awaited.await(context_.device, unused->stream));
    unused->rung.store(false, std::memory_order_relaxed);
    auto enqueued = context_.device.call_host(unused->stream, Alarm::go_off, unused);
    if (!enqueued)
        unused->rung.store(true, std::memory_order_relaxed);
    return enqueued;
}

void Engine::Alarm::go_off(void* alarm) {
    auto* self = static_cast<Alarm*>(alarm);
    Engine* engine = self->engine;
    self->rung.store(true, std::memory_order_release);
    engine->context_.job.ring_doorbell(engine->rank(), platform::News::kUrgent);
}

void Engine::wait_for_all(Lock& lock, uint32_t step) {
    context_.job.rank(rank()).leaving.store(step, std::memory_order_release);
    for (uint32_t peer = 0; peer < size(); ++peer)
        context_.job.ring_doorbell(peer, platform::News::kPassive);
    const auto all_there = [&] {
        for (uint32_t peer = 0; peer < size(); ++peer) {
            const platform::RankRecord& record = context_.job.rank(peer);
            if (record.leaving.load(std::memory_order_acquire) < step &&
                record.state.load(std::memory_order_acquire) != static_cast<uint32_t>(RankState::kDead))
                return false;
        }
        return true;
    };
    const Awaiting what{.kind = Awaiting::Kind::kRanks, .step = step};
    (void)wait(lock, what, all_there, [] { return Result<void>(); }); // only an alarm could fail
}

} // namespace gpurun::comm
