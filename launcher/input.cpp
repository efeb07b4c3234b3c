#include "input.hpp"

#include <array>

namespace gpurun::launcher {

namespace {
// How soon input that came while gpurun was in the background is looked at again.
constexpr int64_t kLookAgainMs = 500;
} // namespace

base::Result<std::unique_ptr<InputForwarder>> InputForwarder::create(platform::EventLoop& loop, int terminal,
                                                                     platform::UniqueFd target) {
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    return std::unique_ptr<InputForwarder>(new InputForwarder(loop, terminal, std::move(target), std::move(timer)));
}

InputForwarder::InputForwarder(platform::EventLoop& loop, int terminal, platform::UniqueFd target,
                               platform::Timer timer)
    : terminal_(terminal), target_(std::move(target)), timer_(std::move(timer)),
      typed_(loop, terminal, [this] { read_terminal(); }), room_(loop, target_.get(), [this] { write_target(); }),
      later_(loop, timer_.fd(), [this] { look_again(); }) {
    typed_.wait_for(platform::Ready::kReadable);
}

void InputForwarder::look_again() {
    later_.wait_for(platform::Ready::kNothing);
    if (target_ && pending_.empty())
        typed_.wait_for(platform::Ready::kReadable);
}

void InputForwarder::stop() {
    typed_.stop();
    room_.stop();
    later_.stop();
    target_.reset();
}

void InputForwarder::read_terminal() {
    if (!platform::in_foreground(terminal_)) {
        typed_.wait_for(platform::Ready::kNothing);
        timer_.start(kLookAgainMs);
        later_.wait_for(platform::Ready::kReadable);
        return;
    }
    std::array<char, 4096> typed;
    const platform::Transfer got = platform::read_now(terminal_, typed);
    if (got.state == platform::StreamState::kWouldWait)
        return;
    if (got.state == platform::StreamState::kClosed) {
        stop(); // rank 0 sees the end of its input
        return;
    }
    pending_.assign(typed.data(), got.bytes);
    write_target();
}

void InputForwarder::write_target() {
    const platform::Transfer written = platform::write_now(target_.get(), pending_);
    if (written.state == platform::StreamState::kClosed) {
        stop();
        return;
    }
    pending_.erase(0, written.bytes);
    const bool all = pending_.empty();
    typed_.wait_for(all ? platform::Ready::kReadable : platform::Ready::kNothing);
    room_.wait_for(all ? platform::Ready::kNothing : platform::Ready::kWritable);
}

} // namespace gpurun::launcher
