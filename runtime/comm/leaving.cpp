#include "comm/leaving.hpp"

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Peer;

namespace {

constexpr uint32_t kNothingNew = 1;
constexpr uint32_t kAllSent = 2;
constexpr uint32_t kAllMatched = 3;
constexpr uint32_t kAllUnmapped = 4;
constexpr uint32_t kAllFreed = 5;

Result<void> keep_first(Result<void> first, Result<void> next) { return first ? std::move(next) : std::move(first); }

} // namespace

// No rank makes calls any more, so what is not matched never will be.
void Leaving::end_receives() {
    core_.matcher().for_each_posted([&](Expected& each) {
        assume_engine_lock();
        core_.matcher().withdraw(each);
        static_cast<PostedReceive&>(each).fail(
            base::Error{Status::kFinalized, "gpurun_finalize() was called before a message arrived"});
    });
}

void Leaving::end_sends() {
    const auto fail = [](transfer::Send& each) {
        each.fail(base::Error{Status::kFinalized, "gpurun_finalize() was called before the message was received"});
    };
    for (const auto& peer : core_.peers()) {
        peer->unposted.for_each(fail);
        peer->sends.for_each([&](transfer::Send& each) {
            if (!each.matched() || (each.lends() && peer->lost())) // else it comes to its end
                fail(each);
        });
    }
}

void Leaving::settle_messages(EngineLock& lock) {
    const WaitReason own{.kind = WaitReason::Kind::kOwnMessages};
    const auto none = [&](auto busy) {
        assume_engine_lock();
        return !core_.any_peer(busy);
    };
    const bool checks = core_.resources().settings.check;
    if (checks)
        leftovers_.note_open();
    batch_.end();
    loans_.give_back_all(lock);
    waiter_.wait(lock, own, [&] { return none([](const Peer& each) { return !each.unposted.empty(); }); });
    (void)waiter_.wait(
        lock, own, // collectives that nobody has completed start messages as they go on
        [&] {
            assume_engine_lock();
            return failure_.stuck() || schedules_.all_done();
        },
        [&] {
            assume_engine_lock();
            return alarms_.set_for_moving(true);
        });
    progress_.note_calls_are_over();
    waiter_.tell_all(kNothingNew);
    waiter_.wait_for_all(lock, kAllSent);
    (void)progress_.run();
    if (checks)
        leftovers_.note_unreceived();
    end_receives();
    waiter_.wait(lock, own, [&] { return none([](const Peer& each) { return !each.lost() && !each.has_told(); }); });
    waiter_.wait_for_all(lock, kAllMatched);
    (void)progress_.run(); // what peers have answered
    end_sends();
    const auto moved = [&] {
        while (transfer::Operation* const each = core_.resources().left.front())
            each->enqueue_left();
        return failure_.stuck() ||
               (core_.resources().moving.empty() && core_.resources().returning == 0 &&
                none([](const Peer& each) { return !each.sends.empty() || !each.receives.empty(); }));
    };
    (void)waiter_.wait(lock, own, moved, [&] {
        assume_engine_lock();
        return alarms_.set_for_moving(true);
    });
    core_.requests().reap_abandoned();
}

Result<void> Leaving::run() {
    EngineLock lock(core_.mutex());
    settle_messages(lock);
    background_.stop(lock);
    if (failure_.stuck()) { // nothing may be waited for or taken down: it goes with the process
        waiter_.wait_for_all(lock, kAllFreed);
        return base::Error{Status::kPeerLost, "a rank died before a message with it had moved; a stream stays blocked"};
    }
    auto result = take_down(lock);
    if (result && failure_.cut_short())
        return base::Error{Status::kPeerLost, "a rank died before a message with it had moved"};
    return result;
}

Result<void> Leaving::take_down(EngineLock& lock) {
    lock.unlock();
    Result<void> result = core_.device().synchronize_all();
    lock.lock();
    core_.device().give_back();
    (void)failure_.check_graphs();
    for (const auto& each : core_.peers())
        result = keep_first(std::move(result), each->let_go());
    waiter_.wait_for_all(lock, kAllUnmapped);
    for (const auto& each : core_.peers())
        result = keep_first(std::move(result), each->close());
    waiter_.wait_for_all(lock, kAllFreed);
    core_.drop_peers();
    alarms_.close();
    core_.drop_parts();
    return result;
}

} // namespace gpurun::comm
