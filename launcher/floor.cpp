#include "floor.hpp"

#include "base/check.hpp"

#include <utility>

namespace gpurun::launcher {

Floor::Floor(platform::EventLoop& loop, platform::Timer tick, std::function<bool()> held_up)
    : tick_(std::move(tick)), held_up_(std::move(held_up)), ticked_(loop, tick_.fd(), [this] { on_tick(); }) {}

void Floor::take(const void* writer) {
    GPURUN_ASSERT(is_free_for(writer));
    holder_ = writer;
    quiet_ticks_ = 0;
}

void Floor::leave(const void* writer) {
    if (holder_ == writer)
        clear();
}

void Floor::ask(std::function<void()> resume) {
    if (waiting_.empty()) {
        quiet_ticks_ = 0;
        tick_.start(kTickMs);
        ticked_.wait_for(platform::Ready::kReadable);
    }
    waiting_.push_back(std::move(resume));
}

void Floor::clear() {
    holder_ = nullptr;
    ticked_.wait_for(platform::Ready::kNothing);
    // Those that find it taken again ask again.
    for (const auto& resume : std::exchange(waiting_, {}))
        resume();
}

void Floor::on_tick() {
    tick_.acknowledge();
    quiet_ticks_ = held_up_() ? 0 : quiet_ticks_ + 1;
    if (quiet_ticks_ == kQuietTicks)
        clear();
    else
        tick_.start(kTickMs);
}

} // namespace gpurun::launcher
