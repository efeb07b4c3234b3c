// The background thread: what a rank's peers wait for goes on while the rank computes.
//
// It is on duty while requests are active. Then it sleeps on a bell of its own, which peers ring only for urgent news
// (a request that wants an answer, a relay that can go on), and only while no thread of the rank is in a call that
// looks by itself. So ranks that do call pay nothing for it, and it uses no CPU while nothing happens. Messages that
// carry their bytes lie where they are until a call looks: nobody waits for them.
#include "comm/engine.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using transfer::Outgoing;
namespace presence = platform::presence;

Engine::Attendance::Attendance(Engine& engine) : engine_(engine), announced_(engine.background_on_duty_) {
    engine_.end_row();
    if (announced_)
        engine_.context_.job.rank(engine_.rank()).presence.fetch_add(presence::kAttendant, std::memory_order_acq_rel);
}

Engine::Attendance::~Attendance() {
    if (announced_)
        engine_.context_.job.rank(engine_.rank()).presence.fetch_sub(presence::kAttendant, std::memory_order_acq_rel);
    engine_.leave_to_background();
}

void Engine::leave_to_background() {
    if (!any_active() || !background_wanted_)
        return;
    if (!background_on_duty_) {
        start_background();
        return;
    }
    (void)progress(); // what was published while a call looked by itself rang no bell
    if (needs_hand())
        context_.job.ring_doorbell(rank(), platform::News::kUrgent);
}

void Engine::put_off() {
    if (put_off_until_ns_ != 0)
        return;
    put_off_until_ns_ = platform::now_ns() + kLongestDelayNs;
    if (background_on_duty_ && !background_minds_) {
        background_minds_ = true;
        context_.job.ring_doorbell(rank(), platform::News::kUrgent);
    }
}

void Engine::end_row() {
    context_.places.end_row();
    enqueue_put_off();
}

void Engine::enqueue_put_off() {
    starts_in_a_row_ = 0;
    if (put_off_until_ns_ == 0)
        return;
    put_off_until_ns_ = 0;
    for (auto& each : links_)
        if (!each->unposted.empty())
            post_waiting(*each);
    launch_mails();
}

// Whoever waits for a mail that could not be launched is told by its edge.
void Engine::launch_mails() {
    context_.places.look_again();
    if (context_.mails.empty())
        return;
    if (auto launched = context_.mails.launch(context_); !launched)
        base::log(base::LogLevel::kWarn, "small messages could not be enqueued: {}", launched.error().detail);
}

void Engine::start_background() {
    if (!background_) {
        const auto run = [](void* engine) -> void* {
            static_cast<Engine*>(engine)->work_in_background();
            return nullptr;
        };
        auto started = platform::start_quiet_thread(
            run, this, "the thread that moves messages while the program computes", platform::kUsualStack);
        if (!started) {
            base::log(base::LogLevel::kWarn, "messages move only while this rank is in calls of gpurun: {}",
                      started.error().detail);
            background_wanted_ = false; // so nothing is put off from now on
            enqueue_put_off();
            return;
        }
        background_ = *started;
    } else {
        background_called_.notify_one();
    }
    background_on_duty_ = true;
}

void Engine::stop_background(Lock& lock) {
    if (!background_)
        return;
    background_stops_ = true;
    background_called_.notify_one();
    platform::RankRecord& self = context_.job.rank(rank());
    self.background_bell.fetch_add(1, std::memory_order_release);
    platform::wake_all(self.background_bell);
    lock.unlock();
    platform::join_quiet_thread(*background_);
    background_.reset();
    lock.lock();
    background_on_duty_ = false;
    background_wanted_ = false;
}

void Engine::work_in_background() {
    Lock lock(mutex_);
    platform::RankRecord& self = context_.job.rank(rank());
    Patience patience;
    while (!background_stops_) {
        if (!any_active()) {
            background_on_duty_ = false;
            background_called_.wait(lock, [this] { return background_stops_ || background_on_duty_; });
            patience = Patience();
            continue;
        }
        if (put_off_until_ns_ != 0) {
            const int64_t left_ns = put_off_until_ns_ - platform::now_ns();
            if (left_ns <= 0) {
                enqueue_put_off();
                continue;
            }
            background_minds_ = true;
            const uint32_t rung = self.background_bell.load(std::memory_order_acquire);
            lock.unlock();
            platform::sleep_while(self.background_bell, rung, left_ns);
            lock.lock();
            continue;
        }
        background_minds_ = false;
        // Announced with a read-modify-write before the look; pairs with JobSegment::ring_doorbell().
        const uint64_t there = self.presence.fetch_add(presence::kBackground, std::memory_order_acq_rel);
        const uint32_t seen = self.background_bell.load(std::memory_order_acquire);
        const bool attended = (there & presence::kAttendants) != 0;
        if (attended || !progress()) {
            begin_arming();
            if (!attended)
                if (auto armed = arm_moving(); !armed)
                    base::log(base::LogLevel::kWarn, "waiting for messages in the background: {}",
                              armed.error().detail);
            const int64_t timeout_ns = longest_sleep_ns(patience);
            lock.unlock();
            platform::sleep_while(self.background_bell, seen, timeout_ns);
            lock.lock();
        } else {
            mutex_.yield(); // whoever makes a call gets its turn
        }
        self.presence.fetch_sub(presence::kBackground, std::memory_order_relaxed);
    }
}

// Whether some message goes on only if somebody of this rank moves it.
bool Engine::needs_hand() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& each) {
                           return !each->unposted.empty() || !each->owing_edge.empty() || !each->relay_out.empty() ||
                                  !each->relay_in.empty();
                       }) ||
           moving_in_.find([](const transfer::Incoming& each) { return each.busy(); }) != nullptr;
}

Result<void> Engine::arm_moving() {
    Result<void> result;
    const auto arm = [&](const auto& each) {
        if (!result || !each.needs_hand())
            return;
        if (const auto awaited = each.awaited())
            result = set_alarm(*awaited);
    };
    for (const auto& each : links_)
        if (const Outgoing* send = each->owing_edge.front())
            arm(*send);
    moving_out_.for_each(arm);
    moving_in_.for_each(arm);
    return result;
}

Result<void> Engine::arm_ends() {
    Result<void> result = arm_moving();
    const auto arm = [&](const auto& each) {
        if (!result)
            return;
        if (const auto awaited = each.awaited())
            result = set_alarm(*awaited);
    };
    moving_out_.for_each(arm);
    moving_in_.for_each(arm);
    return result;
}

} // namespace gpurun::comm
