// Sleeping on a word, and being woken.
#include "platform/wake.hpp"
#include "platform/clock.hpp"
#include "platform/job_segment.hpp"
#include "support/unit.hpp"

#include <thread>

using namespace gpurun::platform;

TEST_SUITE_BEGIN("wake");

TEST_CASE("who sleeps on a word that has changed does not sleep") {
    std::atomic<uint32_t> word{1};
    const int64_t before = now_ns();
    sleep_while(word, 0u, 5'000'000'000);
    CHECK(now_ns() - before < 1'000'000'000);
}

TEST_CASE("sleep ends after its time") {
    std::atomic<uint64_t> word{0};
    const int64_t before = now_ns();
    sleep_while(word, uint64_t{0}, 20'000'000);
    CHECK(now_ns() - before >= 10'000'000);
}

TEST_CASE("a published value wakes its sleeper") {
    std::atomic<uint64_t> word{0};
    std::thread sleeper([&] {
        while (word.load(std::memory_order_acquire) == 0)
            sleep_while(word, uint64_t{0}, kForever);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    store_and_wake(word, 1);
    sleeper.join();
    CHECK(word.load() == 1);
}

// Each turn is published as the other side may be about to fall asleep.
TEST_CASE("no value that is published within a process is slept through") {
    std::atomic<uint64_t> there{0};
    std::atomic<uint64_t> back{0};
    constexpr uint64_t kTurns = 20'000;
    const auto await = [](std::atomic<uint64_t>& word, uint64_t value) {
        for (uint64_t seen = load_published(word); seen != value; seen = load_published(word))
            sleep_while(word, seen, kForever);
    };
    std::thread other([&] {
        for (uint64_t turn = 1; turn <= kTurns; ++turn) {
            await(there, turn);
            store_and_wake_here(back, turn);
        }
    });
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
        store_and_wake_here(there, turn);
        await(back, turn);
    }
    other.join();
    CHECK(back.load() == kTurns);
}

TEST_SUITE_END();
