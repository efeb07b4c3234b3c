#include "platform/death_watch.hpp"

#include "platform/wake.hpp"

namespace gpurun::platform {

base::Result<std::unique_ptr<DeathWatch>> DeathWatch::start(const JobSegment& job, uint32_t self,
                                                            std::function<void()> look) {
    std::unique_ptr<DeathWatch> watch(new DeathWatch(job.rank(self).death_bell, std::move(look)));
    const auto run = [](void* watching) -> void* {
        static_cast<DeathWatch*>(watching)->watch();
        return nullptr;
    };
    GPURUN_ASSIGN(watch->thread_, start_quiet_thread(run, watch.get(), "the thread that learns of deaths"));
    return watch;
}

DeathWatch::~DeathWatch() {
    if (!thread_)
        return;
    stops_.store(true, std::memory_order_relaxed); // the bell publishes it
    bell_.fetch_add(1, std::memory_order_release);
    wake_all(bell_);
    join_quiet_thread(*thread_);
}

void DeathWatch::watch() {
    for (;;) {
        // Acquire: pairs with mark_dead() and the destructor. Read before the look, so that what it misses rings.
        const uint32_t seen = bell_.load(std::memory_order_acquire);
        if (stops_.load(std::memory_order_relaxed))
            return;
        look_();
        sleep_while(bell_, seen, kForever);
    }
}

} // namespace gpurun::platform
