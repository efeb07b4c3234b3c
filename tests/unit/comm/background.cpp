// The background thread: when it asks for the engine lock.
#include "one_rank.hpp"

#include <chrono>
#include <thread>

using namespace gpurun;
using comm::Background;
using gpurun::test::must;
using gpurun::test::OneRank;
namespace presence = platform::presence;

namespace {

// It is on duty, for a receive that nobody sends, and sleeps.
struct OnDuty {
    OneRank rank{2, gpurun::test::rank_settings(), true};
    int32_t value = 0;

    OnDuty() {
        (void)rank.requests.start({.kind = comm::Task::Kind::kReceive,
                                   .peer = 1,
                                   .comm = &rank.world,
                                   .operand = rank.operand(&value, sizeof(value))});
        REQUIRE(soon([&] { return (own().presence.load() & presence::kBackground) != 0; }));
    }
    platform::RankRecord& own() { return rank.core.own_record(); }
    void ring() {
        own().background_bell.fetch_add(1, std::memory_order_release);
        platform::wake_all(own().background_bell);
    }
    template <typename Condition>
    static bool soon(const Condition& condition, int most_ms = 10'000) {
        for (int ms = 0; ms < most_ms; ++ms) {
            if (condition())
                return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }
};

} // namespace

TEST_SUITE_BEGIN("background");

TEST_CASE("the background thread answers who rings, but not while a call makes progress") {
    OnDuty on_duty;
    comm::EngineLock lock(on_duty.rank.core.mutex());
    const auto is_wanted = [&] { return lock.is_wanted(); };
    {
        const Background::Attendance attendance(on_duty.rank.background);
        on_duty.ring();
        CHECK_FALSE(OnDuty::soon(is_wanted, 30));
    }
    on_duty.ring();
    CHECK(OnDuty::soon(is_wanted));
}

TEST_SUITE_END();
