#include "base/yielding_mutex.hpp"
#include "support/unit.hpp"

#include <mutex>
#include <thread>

using gpurun::base::YieldingMutex;

TEST_SUITE_BEGIN("yielding mutex");

TEST_CASE("who tries for a time gives up while it is kept, and gets it once it is free") {
    YieldingMutex mutex;
    mutex.lock();
    std::thread([&] { CHECK_FALSE(mutex.try_lock_for(std::chrono::milliseconds(5))); }).join();
    mutex.unlock();
    CHECK(mutex.try_lock_for(std::chrono::milliseconds(0)));
    mutex.unlock();
}

TEST_CASE("a holder that polls lets in who tries for a time") {
    YieldingMutex mutex;
    std::atomic<bool> ends{false};
    mutex.lock();
    std::thread other([&] {
        CHECK(mutex.try_lock_for(std::chrono::seconds(60)));
        ends = true;
        mutex.unlock();
    });
    while (!ends)
        mutex.yield();
    mutex.unlock();
    other.join();
}

TEST_SUITE_END();
