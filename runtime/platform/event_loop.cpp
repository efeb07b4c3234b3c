#include "platform/event_loop.hpp"

#include "platform/system_error.hpp"

#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace gpurun::platform {

static_assert(static_cast<uint32_t>(Ready::kReadable) == EPOLLIN);
static_assert(static_cast<uint32_t>(Ready::kWritable) == EPOLLOUT);

base::Result<std::unique_ptr<EventLoop>> EventLoop::create() {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll)
        return system_error("creating an event loop");
    return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll)));
}

base::Result<void> EventLoop::run_once() {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR)
        return system_error("waiting for events");
    for (int i = 0; i < count; ++i) {
        const uint64_t key = events[static_cast<size_t>(i)].data.u64; // a copy: epoll_event is packed
        const auto found = handlers_.find(key);
        if (found == handlers_.end())
            continue;
        const std::shared_ptr<Handler> handler = found->second;
        (*handler)();
    }
    return {};
}

Watch::Watch(EventLoop& loop, int fd, std::function<void()> handler) : loop_(&loop), fd_(fd), id_(loop.next_id_++) {
    loop.handlers_.emplace(id_, std::make_shared<EventLoop::Handler>(std::move(handler)));
}

Watch& Watch::operator=(Watch&& other) noexcept {
    if (this != &other) {
        stop();
        loop_ = std::exchange(other.loop_, nullptr);
        fd_ = std::exchange(other.fd_, -1);
        id_ = std::exchange(other.id_, 0);
        waits_for_ = std::exchange(other.waits_for_, Ready::kNothing);
    }
    return *this;
}

bool Watch::wait_for(Ready ready) {
    if (loop_ == nullptr || ready == waits_for_)
        return loop_ != nullptr;
    epoll_event event{};
    event.events = static_cast<uint32_t>(ready);
    event.data.u64 = id_;
    int operation = EPOLL_CTL_MOD;
    if (ready == Ready::kNothing)
        operation = EPOLL_CTL_DEL;
    else if (waits_for_ == Ready::kNothing)
        operation = EPOLL_CTL_ADD;
    if (::epoll_ctl(loop_->epoll_.get(), operation, fd_, &event) != 0)
        return false;
    waits_for_ = ready;
    return true;
}

void Watch::stop() {
    if (loop_ == nullptr)
        return;
    wait_for(Ready::kNothing);
    loop_->handlers_.erase(id_);
    loop_ = nullptr;
}

base::Result<Timer> Timer::create() {
    UniqueFd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!fd)
        return system_error("creating a timer");
    return Timer(std::move(fd));
}

void Timer::start(int64_t delay_ms) {
    itimerspec when{};
    when.it_value.tv_sec = delay_ms / 1000;
    when.it_value.tv_nsec = delay_ms > 0 ? delay_ms % 1000 * 1'000'000 : 1; // 0 would stop it
    ::timerfd_settime(fd_.get(), 0, &when, nullptr);
}

void Timer::stop() {
    const itimerspec never{};
    ::timerfd_settime(fd_.get(), 0, &never, nullptr);
}

bool Timer::acknowledge() {
    uint64_t passed = 0;
    return ::read(fd_.get(), &passed, sizeof passed) == static_cast<ssize_t>(sizeof passed);
}

} // namespace gpurun::platform
