#include "comm/background.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"

#include <algorithm>
#include <chrono>

namespace gpurun::comm {

namespace presence = platform::presence;
using platform::Notify;

namespace {
constexpr int64_t kUrgentNs = 1'000'000; // after the last collective
} // namespace

Background::Background(Core& core, Progress& progress, Batch& batch, Alarms& alarms, bool wanted)
    : core_(core), progress_(progress), batch_(batch), alarms_(alarms), wanted_(wanted) {
    batch_.allow(wanted);
    batch_.on_begin([this] {
        if (!on_duty_ || minds_batch_)
            return;
        minds_batch_ = true;
        wake(); // whoever else is in a call: that does not mind what is deferred after it
    });
}

void Background::wake() {
    platform::RankRecord& self = core_.own_record();
    self.background_bell.fetch_add(1, std::memory_order_release);
    platform::wake_all(self.background_bell);
}

// A thread that has nothing left to do may still sleep on duty. It goes off duty once it is rung, and costs nothing
// until then.
Background::Attendance::Attendance(Background& background, Batches batches)
    : background_(background), announced_(background.on_duty_ && background.has_duty()) {
    if (batches == Batches::kEnd)
        background_.batch_.end();
    if (announced_)
        background_.core_.own_record().presence.fetch_add(presence::kAttendant, std::memory_order_acq_rel);
}

Background::Attendance::~Attendance() {
    if (announced_)
        background_.core_.own_record().presence.fetch_sub(presence::kAttendant, std::memory_order_seq_cst);
    background_.leave_to();
}

void Background::leave_to() {
    if (left_to_call_.load(std::memory_order_seq_cst)) [[unlikely]] {
        left_to_call_.store(false, std::memory_order_seq_cst);
        (void)progress_.run();
    }
    if (!has_duty() || !wanted_)
        return;
    if (!on_duty_) {
        start();
        return;
    }
    (void)progress_.run(); // what was posted while the call made progress has rung nobody
    if (needs_hand() || (sleeps_calmly_ && others_.under_way()))
        core_.notify_self(Notify::kAlways);
}

void Background::start() {
    if (!thread_) {
        const auto run = [](void* self) -> void* {
            static_cast<Background*>(self)->work();
            return nullptr;
        };
        auto started = platform::start_quiet_thread(
            run, this, "the thread that moves messages while the program computes", platform::kUsualStack);
        if (!started) {
            base::log(base::LogLevel::kWarn, "messages move only while this rank is in gpurun calls: {}",
                      started.error().detail);
            wanted_ = false; // nobody would flush a batch in time: nothing is deferred from now on
            batch_.allow(false);
            batch_.flush();
            return;
        }
        thread_ = *started;
    } else {
        called_.notify_one();
    }
    on_duty_ = true;
}

void Background::stop(EngineLock& lock) {
    if (!thread_)
        return;
    stops_ = true;
    called_.notify_one();
    wake();
    lock.unlock();
    platform::join_quiet_thread(*thread_);
    thread_.reset();
    lock.lock();
    on_duty_ = false;
    wanted_ = false;
    batch_.allow(false);
}

void Background::work() {
    EngineLock lock(core_.mutex());
    Patience patience;
    while (!stops_) {
        minds_batch_ = batch_.is_deferring() || batch_.defers_often(platform::now_ns());
        if (!has_duty() && !minds_batch_) {
            on_duty_ = false;
            rest(lock);
            patience = Patience();
        } else if (batch_.is_deferring()) {
            const int64_t left_ns = batch_.deferred_until_ns() - platform::now_ns();
            if (left_ns <= 0)
                batch_.flush();
            else
                sleep(lock, left_ns, core_.own_record().background_bell.load(std::memory_order_acquire));
        } else {
            attend(lock, patience);
        }
    }
}

// Until there is something to do. A rank that rests is not urgent for long: its peers' notifications would be slower.
void Background::rest(EngineLock& lock) {
    const auto is_called = [this] { return stops_ || on_duty_; };
    if (is_urgent_ && !called_.wait_for(lock, std::chrono::nanoseconds(kUrgentNs), is_called))
        end_urgency();
    called_.wait(lock, is_called);
}

// Whether somebody has rung, and no thread in a call answers: one that is there makes progress, and looks once more as
// it leaves (leave_to()). So this one does not ask for the lock, for which calls stop what they wait for.
// `minds_batch`: what it believes of batches, for which it is always rung.
bool Background::is_rung(uint32_t& rung, bool minds_batch) {
    platform::RankRecord& self = core_.own_record();
    const uint32_t now = self.background_bell.load(std::memory_order_acquire);
    if (now == rung)
        return false;
    left_to_call_.store(true, std::memory_order_seq_cst); // before the look who is there: pairs with leave_to()
    const uint64_t there = self.presence.fetch_add(0, std::memory_order_seq_cst);
    const bool is_for_this = stops_.load(std::memory_order_relaxed) || batch_.deferred_until_ns() != 0 ||
                             minds_batch_.load(std::memory_order_relaxed) != minds_batch;
    if (is_for_this || (there & presence::kAttendants) == 0)
        return true;
    rung = now;
    return false;
}

// As long as batches are deferred often, none of them rings: the thread looks by itself whether one is overdue.
void Background::sleep(EngineLock& lock, int64_t timeout_ns, uint32_t rung) {
    std::atomic<uint32_t>& bell = core_.own_record().background_bell;
    const bool minds_batch = minds_batch_;
    lock.unlock();
    int64_t now_ns = platform::now_ns();
    const int64_t end_ns = timeout_ns == platform::kForever ? INT64_MAX : now_ns + timeout_ns;
    while (now_ns < end_ns && !is_rung(rung, minds_batch) && !batch_.is_overdue(now_ns)) {
        if (minds_batch && !batch_.defers_often(now_ns))
            break;
        const int64_t left_ns = timeout_ns == platform::kForever ? platform::kForever : end_ns - now_ns;
        platform::sleep_while(bell, rung, minds_batch ? std::min(end_ns - now_ns, Batch::kLongestDelayNs) : left_ns);
        now_ns = platform::now_ns();
    }
    lock.lock();
}

// Programs make collectives again and again, and to become urgent costs a heavy fence, which others feel. So it ends
// when none has been under way for a while.
bool Background::become_urgent() {
    const int64_t now_ns = platform::now_ns();
    if (others_.under_way()) {
        last_urgent_ns_ = now_ns;
        if (is_urgent_)
            return false;
        core_.job().announce(core_.self().value, presence::kUrgent);
        is_urgent_ = true;
        return true;
    }
    if (is_urgent_ && now_ns > last_urgent_ns_ + kUrgentNs)
        end_urgency();
    return false;
}

void Background::end_urgency() {
    core_.own_record().presence.fetch_sub(presence::kUrgent, std::memory_order_relaxed);
    is_urgent_ = false;
}

void Background::attend(EngineLock& lock, Patience& patience) {
    platform::RankRecord& self = core_.own_record();
    // Announced before the look, so that a record that the look misses rings; pairs with JobSegment::ring_doorbell().
    const uint64_t there = self.presence.fetch_add(presence::kBackground, std::memory_order_acq_rel);
    const uint32_t rung = self.background_bell.load(std::memory_order_acquire);
    const bool attended = (there & presence::kAttendants) != 0;
    const auto is_idle = [&] {
        assume_engine_lock();
        return attended || !progress_.run();
    };
    if (is_idle() && (attended || !become_urgent() || is_idle())) {
        sleeps_calmly_ = !is_urgent_;
        alarms_.begin();
        if (!attended)
            if (auto armed = alarms_.set_for_moving(false); !armed)
                base::log(base::LogLevel::kWarn, "waiting for messages in the background: {}", armed.error().detail);
        sleep(lock, alarms_.longest_sleep_ns(patience), rung);
        sleeps_calmly_ = false;
    } else {
        lock.yield(); // a thread that makes a call goes first
    }
    self.presence.fetch_sub(presence::kBackground, std::memory_order_relaxed);
}

// Whether some message goes on only if somebody of this rank moves it.
bool Background::needs_hand() const {
    return core_.any_peer([](const transfer::Peer& each) { return each.needs_hand(); }) ||
           core_.resources().moving.find([](const transfer::Operation& each) { return each.is_busy(); }) != nullptr ||
           core_.resources().ending != 0 || others_.needs_hand();
}

} // namespace gpurun::comm
