#include "comm/waiter.hpp"

#include "base/current_call.hpp"
#include "platform/clock.hpp"
#include "platform/known_threads.hpp"
#include "platform/wake.hpp"

#include <thread>

namespace gpurun::comm {

using base::Result;

namespace {

// Longer than most messages take. Sleeping, and being woken by an alarm, costs 50 to 150 us on each side: a window of
// 1 GiB on NVLink lost a fifth of its bandwidth by it. Emulated devices need the cores themselves.
constexpr int64_t kSpinUs = 10'000;
constexpr int64_t kSpinEmulatedUs = 1000;

int64_t spin_ns(const base::Settings& settings, const platform::JobHeader& job, device::Kind kind) {
    if (settings.spin_us)
        return *settings.spin_us * 1000;
    if (job.size > job.cores)
        return 0;
    return (kind == device::Kind::kEmulated ? kSpinEmulatedUs : kSpinUs) * 1000;
}

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Whether to look again without sleeping. Reads the clock every 32 looks only: calls that need not wait never do.
// Or, if it yields, gives its core to others meanwhile, one of which may be the peer that it waits for.
class Spin {
  public:
    Spin(int64_t limit_ns, bool yields) : limit_ns_(limit_ns), yields_(yields) {}

    bool goes_on() {
        if (yields_)
            std::this_thread::yield();
        else
            pause();
        if (++looks_ % kLooksPerClock != 0 && limit_ns_ != 0 && !yields_)
            return true;
        const int64_t now_ns = platform::now_ns();
        if (end_ns_ == 0)
            end_ns_ = now_ns + limit_ns_;
        return now_ns < end_ns_;
    }

  private:
    static constexpr uint32_t kLooksPerClock = 32;

    int64_t limit_ns_;
    bool yields_;
    int64_t end_ns_ = 0;
    uint32_t looks_ = 0;
};

// The call's entry in the list of those that wait (WaitReport), made once it has looked 32 times. Created and destroyed
// under the engine lock.
class Announcement {
  public:
    Announcement(base::List<WaitingCall, Waits>& calls, const WaitReason& reason) : calls_(calls), reason_(reason) {}
    ~Announcement() {
        if (call_)
            calls_.remove(*call_);
    }
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;

    void look() {
        if (++looks_ == kFirstLooks)
            make();
    }
    void make() {
        if (call_)
            return;
        call_.emplace(reason_);
        call_->call = base::this_call().name.load(std::memory_order_relaxed);
        call_->thread = platform::know_this_thread();
        call_->since_ns = platform::now_ns();
        calls_.push_back(*call_);
    }

  private:
    static constexpr uint32_t kFirstLooks = 32; // a small message is there by then

    base::List<WaitingCall, Waits>& calls_;
    const WaitReason& reason_;
    std::optional<WaitingCall> call_;
    uint32_t looks_ = 0;
};

} // namespace

Waiter::Waiter(Core& core, Progress& progress, Alarms& alarms)
    : core_(core), progress_(progress), alarms_(alarms),
      spin_ns_(spin_ns(core.resources().settings, core.job().header(), core.device().info().identity.kind)),
      yields_(!core.resources().settings.spin_us && core.job().header().size > core.job().header().cores) {}

Result<void> Waiter::wait(EngineLock& lock, const WaitReason& reason, base::FunctionRef<bool()> done,
                          base::FunctionRef<Result<void>()> arm) {
    Spin spin(yields_ ? kYieldNs : spin_ns_, yields_);
    Patience patience;
    Announcement announcement(calls_, reason);
    while (true) {
        if (done())
            return {};
        announcement.look();
        if (progress_.run() || spin.goes_on()) {
            lock.yield(); // other threads of the rank get their turn
            continue;
        }
        announcement.make();
        GPURUN_TRY(sleep(lock, patience, done, arm));
    }
}

void Waiter::wait(EngineLock& lock, const WaitReason& reason, base::FunctionRef<bool()> done) {
    (void)wait(lock, reason, done, [] { return Result<void>(); }); // only an alarm could fail
}

Result<void> Waiter::sleep(EngineLock& lock, Patience& patience, base::FunctionRef<bool()> done,
                           base::FunctionRef<Result<void>()> arm) {
    platform::RankRecord& self = core_.own_record();
    core_.job().announce(core_.self().value, platform::presence::kSleeper);
    core_.note_sleeping(1);
    const uint32_t seen = self.doorbell.load(std::memory_order_acquire);
    Result<void> ready;
    if (!progress_.run() && !done()) {
        alarms_.begin();
        ready = arm();
        const bool others_wait = core_.resources().unmapping != 0 || core_.resources().ending != 0;
        if (ready && (core_.requests().any_under_way() || others_wait))
            ready = alarms_.set_for_moving(false); // whoever waits in a call arms its own
        if (ready) {
            const int64_t timeout_ns = alarms_.longest_sleep_ns(patience);
            lock.unlock();
            platform::sleep_while(self.doorbell, seen, timeout_ns);
            lock.lock();
        }
    }
    core_.note_sleeping(-1);
    self.presence.fetch_sub(platform::presence::kSleeper, std::memory_order_relaxed);
    return ready;
}

void Waiter::tell_all(uint32_t step) {
    core_.own_record().leaving.store(step, std::memory_order_release);
    for (const auto& each : core_.peers()) {
        if (!each->channel().shares_memory() || each->channel().steps_of_leaving() == 0)
            each->channel().tell_steps_of_leaving(step);
    }
}

// Ranks of other nodes that this one has not met learn of its steps by gpurun. Only once those that it has met have
// taken note of them, since till then something may be on its way to one that does not know. True if that is done.
bool Waiter::tell_strangers() {
    const uint32_t steps = core_.own_record().leaving.load(std::memory_order_relaxed);
    const auto is_far = [](const transfer::Peer& each) { return !each.channel().shares_memory(); };
    if (core_.own_record().steps_told.load(std::memory_order_relaxed) == steps || !core_.any_peer(is_far))
        return true;
    if (core_.any_peer([](const transfer::Peer& each) { return !each.channel().knows_steps_of_leaving(); }))
        return false;
    core_.job().tell_steps(core_.self().value, steps);
    core_.tell_other_nodes(steps);
    return true;
}

// The ranks of this node see each other's steps in their records, and none passes one before the last has come to it.
// So only the last one wakes the others: n wakes in place of n * n. Of two that come at once, one sees the other's
// step.
void Waiter::wait_for_all(EngineLock& lock, uint32_t step) {
    std::atomic<uint32_t>& own = core_.own_record().leaving;
    const uint32_t next = own.load(std::memory_order_relaxed) + 1; // a rank that is stuck leaves some out
    own.store(step, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto behind = [](const transfer::Peer& each, uint32_t reached) {
        return each.channel().steps_of_leaving() < reached && each.channel().liveness() != transfer::Liveness::kDead;
    };
    const bool last = !core_.any_peer(
        [&](const transfer::Peer& each) { return each.channel().shares_memory() && behind(each, next); });
    for (const auto& each : core_.peers()) {
        if (last || !each->channel().shares_memory())
            each->channel().tell_steps_of_leaving(step);
    }
    wait(lock, WaitReason{.kind = WaitReason::Kind::kRanks, .step = step}, [&] {
        assume_engine_lock();
        const bool told = tell_strangers();
        return told && !core_.any_peer([&](const transfer::Peer& each) { return behind(each, step); });
    });
}

} // namespace gpurun::comm
