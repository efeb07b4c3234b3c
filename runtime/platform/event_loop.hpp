// Waiting for many descriptors at once (epoll): each watched descriptor has a handler that runs when it is ready.
//
// Level-triggered: a handler that leaves something unread is called again. One thread makes and runs the loop and
// all its watches. A handler may end any watch, its own included.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

namespace gpurun::platform {

enum class Ready : uint32_t { kNothing = 0, kReadable = 1, kWritable = 4, kBoth = 5 };

class EventLoop {
  public:
    static base::Result<std::unique_ptr<EventLoop>> create();

    // Waits until something is ready and runs the handlers of all that is.
    base::Result<void> run_once();

  private:
    friend class Watch;
    using Handler = std::function<void()>;

    explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}

    UniqueFd epoll_;
    uint64_t next_id_ = 1;
    // Shared, so that a handler may end its own watch. Ids are never reused: an event of a watch that an earlier
    // handler of the same round has ended finds nothing.
    std::unordered_map<uint64_t, std::shared_ptr<Handler>> handlers_;
};

// Owns a descriptor's place in a loop; the descriptor itself stays the caller's and outlives this.
class Watch {
  public:
    Watch() = default;
    Watch(EventLoop& loop, int fd, std::function<void()> handler);
    Watch(Watch&& other) noexcept { *this = std::move(other); }
    Watch& operator=(Watch&& other) noexcept;
    ~Watch() { stop(); }

    // What to wait for from now on. With kNothing the descriptor leaves the loop, so that not even its closing
    // wakes it. False where the kernel has no readiness for this kind of file: it never makes a caller wait.
    bool wait_for(Ready ready);
    void stop();

  private:
    EventLoop* loop_ = nullptr;
    int fd_ = -1;
    uint64_t id_ = 0;
    Ready waits_for_ = Ready::kNothing;
};

// A deadline as a descriptor (timerfd), readable once it has passed.
class Timer {
  public:
    static base::Result<Timer> create();

    void start(int64_t delay_ms); // 0: it passes at once
    void stop();
    // For its handler: makes it unreadable until the next start(). False if it has been started again since it was
    // seen to have passed, by an earlier handler of the same round.
    bool acknowledge();
    int fd() const { return fd_.get(); }

  private:
    explicit Timer(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
};

} // namespace gpurun::platform
