#include "platform/reporter.hpp"

#include "platform/quiet_thread.hpp"
#include "platform/system_error.hpp"
#include "platform/wire.hpp"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gpurun::platform {

using base::Result;

Result<std::unique_ptr<Reporter>> Reporter::start(MessageSocket& socket, Describe describe,
                                                  std::function<void()> alone) {
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
    if (!stop)
        return system_error("preparing to answer gpurun");
    std::unique_ptr<Reporter> reporter(new Reporter(socket, std::move(stop), std::move(describe), std::move(alone)));
    GPURUN_ASSIGN(reporter->thread_, start_quiet_thread(run, reporter.get(), "the thread that answers gpurun"));
    reporter->running_ = true;
    return reporter;
}

Reporter::~Reporter() {
    if (!running_)
        return;
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one); // it cannot be full
    ::pthread_join(thread_, nullptr);
}

void* Reporter::run(void* self) {
    static_cast<Reporter*>(self)->listen();
    return nullptr;
}

bool Reporter::wait_for(short events) const {
    pollfd watched[] = {{socket_.fd(), events, 0}, {stop_.get(), POLLIN, 0}};
    while (::poll(watched, std::size(watched), -1) < 0)
        if (errno != EINTR)
            return false;
    return watched[1].revents == 0;
}

// Until gpurun is gone, or says what a rank does not expect from it: then nobody answers.
void Reporter::listen() {
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
    while (wait_for(POLLIN)) {
        auto received = socket_.try_receive(bytes);
        if (received && !received->has_value())
            continue;
        if (!received || (*received)->bytes == 0) { // an error, if it was killed before it had read all
            if (alone_)
                alone_();
            return;
        }
        wire::Ask ask;
        if ((*received)->bytes != sizeof ask)
            return;
        std::memcpy(&ask, bytes.data(), sizeof ask);
        if (ask.header.magic != wire::kMagic || ask.header.kind != wire::Kind::kAsk)
            return;
        (void)answer(ask.number); // if nobody is there any more, the next look says so
    }
}

bool Reporter::answer(uint32_t number) {
    wire::Answered last;
    last.number = number;
    last.end = describe_(entries_);
    for (const wait_report::Entry& entry : entries_) {
        wire::Answer message;
        message.number = number;
        message.entry = entry;
        if (!say(bytes_of(message)))
            return false;
    }
    return say(bytes_of(last));
}

bool Reporter::say(std::span<const std::byte> message) {
    while (true) {
        auto sent = socket_.try_send(message);
        if (!sent)
            return false;
        if (*sent)
            return true;
        if (!wait_for(POLLOUT))
            return false;
    }
}

} // namespace gpurun::platform
