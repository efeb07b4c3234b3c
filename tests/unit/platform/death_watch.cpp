// The thread that learns of deaths: it looks at once and after each death, and ends when it is told to.
#include "platform/death_watch.hpp"
#include "support/unit.hpp"

#include <condition_variable>
#include <mutex>

using namespace gpurun::platform;
using gpurun::test::must;

namespace {

class Looks {
  public:
    void count() {
        const std::lock_guard lock(mutex_);
        ++looks_;
        changed_.notify_all();
    }
    void wait_for_more_than(int looks) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return looks_ > looks; });
    }
    int so_far() {
        const std::lock_guard lock(mutex_);
        return looks_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int looks_ = 0;
};

} // namespace

TEST_SUITE_BEGIN("death watch");

TEST_CASE("it looks at once, and after each death") {
    const JobSegment job = must(JobSegment::create(3, 2));
    Looks looks;
    const auto watch = must(DeathWatch::start(job, 0, [&] { looks.count(); }));
    looks.wait_for_more_than(0);
    for (const uint32_t rank : {1u, 2u}) {
        const int before = looks.so_far();
        REQUIRE_OK(job.mark_dead(rank));
        looks.wait_for_more_than(before);
    }
}

TEST_CASE("it ends while nobody dies") {
    const JobSegment job = must(JobSegment::create(2, 2));
    Looks looks;
    {
        const auto watch = must(DeathWatch::start(job, 1, [&] { looks.count(); }));
        looks.wait_for_more_than(0);
    }
    const int last = looks.so_far();
    REQUIRE_OK(job.mark_dead(0));
    CHECK(looks.so_far() == last);
}
