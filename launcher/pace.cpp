#include "pace.hpp"

#include <utility>

namespace gpurun::launcher {

Pace::Pace(platform::EventLoop& loop, platform::Timer end_of_rest)
    : end_of_rest_(std::move(end_of_rest)), ended_(loop, end_of_rest_.fd(), [this] { resume_all(); }) {
    ended_.wait_for(platform::Ready::kReadable);
}

void Pace::rest(std::function<void()> resume) {
    if (resting_.empty())
        end_of_rest_.start(kRestMs);
    resting_.push_back(std::move(resume));
}

void Pace::resume_all() {
    end_of_rest_.acknowledge();
    for (const auto& resume : std::exchange(resting_, {}))
        resume();
}

} // namespace gpurun::launcher
