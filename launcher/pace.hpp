// How often the terminals of ranks are read while lines flood them.
//
// A terminal wakes its reader for each line. Under a flood, who reads at once takes the cores away from the rank and
// from the kernel's own thread that passes the lines on, and gets one or two lines each time. So a pump then rests for
// a moment, and reads what has gathered. Everything runs on the event loop's thread.
#pragma once

#include "platform/event_loop.hpp"

#include <functional>
#include <vector>

namespace gpurun::launcher {

class Pace {
  public:
    static constexpr int64_t kRestMs = 1;

    // `end_of_rest` becomes its own.
    Pace(platform::EventLoop& loop, platform::Timer end_of_rest);
    Pace(const Pace&) = delete;

    // Calls `resume` once, at most kRestMs later. Who rests outlives that.
    void rest(std::function<void()> resume);

  private:
    void resume_all();

    std::vector<std::function<void()>> resting_;
    platform::Timer end_of_rest_;
    platform::Watch ended_;
};

} // namespace gpurun::launcher
