#include "output.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

namespace gpurun::launcher {

namespace {
constexpr size_t kChunkBytes = 64 * 1024;
// Of one rank before the others get their turn.
constexpr size_t kRoundBytes = 4 * kChunkBytes;
// The most that a pipe can hold unless the administrator allows more.
constexpr size_t kLargestPipeBytes = size_t{1} << 20;
} // namespace

OutputSink::OutputSink(platform::EventLoop& loop, int fd) : fd_(fd), room_(loop, fd, [this] { flush(); }) {}

void OutputSink::write(std::string_view text) {
    if (closed_)
        return;
    if (pending_.empty()) {
        const platform::Transfer written = platform::write_now(fd_, text);
        text.remove_prefix(written.bytes);
        if (written.state == platform::StreamState::kClosed) {
            if (written.error_number != 0 && fd_ != 2)
                platform::write_all(2, base::format("gpurun: writing the ranks' output: {}\n",
                                                    std::generic_category().message(written.error_number)));
            close();
            return;
        }
    }
    pending_ += text;
    if (!pending_.empty())
        room_.wait_for(platform::Ready::kWritable);
}

void OutputSink::flush() {
    const std::string text = std::exchange(pending_, {});
    write(text);
    if (!ready())
        return;
    room_.wait_for(platform::Ready::kNothing);
    // Those that find it full again ask again.
    for (const auto& resume : std::exchange(waiting_, {}))
        resume();
}

void OutputSink::close() {
    closed_ = true;
    pending_.clear();
    room_.stop();
    for (const auto& resume : std::exchange(waiting_, {}))
        resume();
}

OutputPump::OutputPump(platform::EventLoop& loop, platform::UniqueFd source, OutputSink& sink, bool by_lines)
    : sink_(sink), source_(std::move(source)), by_lines_(by_lines), left_to_read_(kRoundBytes),
      readable_(loop, source_.get(), [this] { pump(); }) {
    readable_.wait_for(platform::Ready::kReadable);
}

void OutputPump::pump() {
    std::array<char, kChunkBytes> chunk;
    if (done() || paused_)
        return;
    if (!finishing_)
        left_to_read_ = kRoundBytes;
    while (left_to_read_ > 0) {
        if (sink_.closed()) {
            end();
            return;
        }
        if (!sink_.ready()) {
            pause();
            return;
        }
        const platform::Transfer got =
            platform::read_now(source_.get(), std::span(chunk).first(std::min(chunk.size(), left_to_read_)));
        if (got.state == platform::StreamState::kWouldWait)
            break;
        if (got.state == platform::StreamState::kClosed) {
            end();
            return;
        }
        left_to_read_ -= got.bytes;
        const std::string_view text(chunk.data(), got.bytes);
        if (by_lines_)
            lines_.feed(text, [this](std::string_view line) { pass(line); });
        else
            pass(text);
    }
    if (finishing_)
        end();
}

void OutputPump::finish() {
    if (finishing_)
        return;
    finishing_ = true;
    left_to_read_ = kLargestPipeBytes;
    pump();
}

void OutputPump::pause() {
    paused_ = true;
    readable_.wait_for(platform::Ready::kNothing);
    sink_.call_when_ready([this] {
        paused_ = false;
        readable_.wait_for(platform::Ready::kReadable);
        if (finishing_ || sink_.closed())
            pump();
    });
}

void OutputPump::end() {
    lines_.finish([this](std::string_view rest) { pass(rest); });
    readable_.stop();
    source_.reset(); // a rank that still writes gets what it would get from a closed pipe without gpurun
}

} // namespace gpurun::launcher
