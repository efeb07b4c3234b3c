#include "platform/fabric/wait_bell.hpp"

#include "platform/system_error.hpp"

#include <poll.h>
#include <sys/eventfd.h>

namespace gpurun::platform {

base::Result<WaitBell> WaitBell::create() {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event)
        return system_error("creating an eventfd");
    return WaitBell(std::move(event));
}

void WaitBell::ring() const { (void)::eventfd_write(event_.get(), 1); }

void WaitBell::wait(int fd, int64_t timeout_ns) const {
    constexpr int64_t kSecond = 1'000'000'000;
    pollfd polled[] = {{event_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
    const timespec timeout{timeout_ns / kSecond, timeout_ns % kSecond};
    (void)::ppoll(polled, 2, timeout_ns < 0 ? nullptr : &timeout, nullptr);
    eventfd_t rung = 0;
    (void)::eventfd_read(event_.get(), &rung);
}

} // namespace gpurun::platform
