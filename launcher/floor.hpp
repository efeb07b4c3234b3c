// The floor: which rank may write to an output that several ranks share, while a line is under way that is too long to
// be kept.
//
// The rank of that line has the floor until the line ends. The other ranks are not read meanwhile, so no memory grows.
// But the rank may wait for one of them before it goes on with its line. So it loses the floor, and its line is torn,
// if another rank asks for the floor and nothing of the line has come for more than a second. Time in which the output
// takes nothing does not count. Everything runs on the event loop's thread.
#pragma once

#include "platform/event_loop.hpp"

#include <functional>
#include <vector>

namespace gpurun::launcher {

class Floor {
  public:
    static constexpr int64_t kTickMs = 500;
    // Silence is counted in ticks, so that output that came while gpurun itself did not run is read first.
    static constexpr int kQuietTicks = 3;

    // `held_up` says that the output takes nothing at present.
    Floor(platform::EventLoop& loop, platform::Timer tick, std::function<bool()> held_up);
    Floor(const Floor&) = delete;

    bool held_by(const void* writer) const { return holder_ == writer; }
    bool is_free_for(const void* writer) const { return holder_ == nullptr || holder_ == writer; }
    // `writer` writes, and has not ended its line. REQUIRES: is_free_for(writer).
    void take(const void* writer);
    // It has ended its line. Does nothing if another has the floor.
    void leave(const void* writer);
    // Calls `resume` once, when the floor is free. REQUIRES: it is not free.
    void ask(std::function<void()> resume);
    // Nobody has it any more.
    void clear();

  private:
    void on_tick();

    const void* holder_ = nullptr;
    int quiet_ticks_ = 0; // since it wrote
    std::vector<std::function<void()>> waiting_;
    platform::Timer tick_;
    std::function<bool()> held_up_;
    platform::Watch ticked_;
};

} // namespace gpurun::launcher
