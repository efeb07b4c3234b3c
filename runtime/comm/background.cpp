#include "comm/background.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"

namespace gpurun::comm {

namespace presence = platform::presence;
using platform::Notify;

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

Background::Attendance::Attendance(Background& background) : background_(background), announced_(background.on_duty_) {
    background_.batch_.end();
    if (announced_)
        background_.core_.own_record().presence.fetch_add(presence::kAttendant, std::memory_order_acq_rel);
}

Background::Attendance::~Attendance() {
    if (announced_)
        background_.core_.own_record().presence.fetch_sub(presence::kAttendant, std::memory_order_acq_rel);
    background_.leave_to();
}

void Background::leave_to() {
    if (!has_duty() || !wanted_)
        return;
    if (!on_duty_) {
        start();
        return;
    }
    (void)progress_.run(); // what was posted while the call made progress has rung nobody
    if (needs_hand())
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
        if (!has_duty()) {
            on_duty_ = false;
            called_.wait(lock, [this] { return stops_ || on_duty_; });
            patience = Patience();
        } else if (batch_.is_deferring()) {
            const int64_t left_ns = batch_.deferred_until_ns() - platform::now_ns();
            minds_batch_ = true;
            if (left_ns <= 0)
                batch_.flush();
            else
                sleep(lock, left_ns, core_.own_record().background_bell.load(std::memory_order_acquire));
        } else {
            minds_batch_ = false;
            attend(lock, patience);
        }
    }
}

void Background::sleep(EngineLock& lock, int64_t timeout_ns, uint32_t rung) {
    lock.unlock();
    platform::sleep_while(core_.own_record().background_bell, rung, timeout_ns);
    lock.lock();
}

void Background::attend(EngineLock& lock, Patience& patience) {
    platform::RankRecord& self = core_.own_record();
    // Announced before the look, so that a record that the look misses rings; pairs with JobSegment::ring_doorbell().
    const uint64_t there = self.presence.fetch_add(presence::kBackground, std::memory_order_acq_rel);
    const uint32_t rung = self.background_bell.load(std::memory_order_acquire);
    const bool attended = (there & presence::kAttendants) != 0;
    if (attended || !progress_.run()) {
        alarms_.begin();
        if (!attended)
            if (auto armed = alarms_.set_for_moving(false); !armed)
                base::log(base::LogLevel::kWarn, "waiting for messages in the background: {}", armed.error().detail);
        sleep(lock, alarms_.longest_sleep_ns(patience), rung);
    } else {
        lock.yield(); // a thread that makes a call goes first
    }
    self.presence.fetch_sub(presence::kBackground, std::memory_order_relaxed);
}

// Whether some message goes on only if somebody of this rank moves it.
bool Background::needs_hand() const {
    return core_.any_peer([](const transfer::Peer& each) { return each.needs_hand(); }) ||
           core_.resources().moving.find([](const transfer::Operation& each) { return each.is_busy(); }) != nullptr;
}

} // namespace gpurun::comm
