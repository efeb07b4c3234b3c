#include "input.hpp"

#include <algorithm>
#include <array>

namespace gpurun::launcher {

namespace {
// How soon input that came while gpurun was in the background is looked at again.
constexpr int64_t kLookAgainMs = 500;
// No more than any pipe takes at once.
constexpr size_t kInputBytes = 4096;
} // namespace

base::Result<std::unique_ptr<InputForwarder>> InputForwarder::create(platform::EventLoop& loop, int source) {
    GPURUN_ASSIGN(platform::Timer timer, platform::Timer::create());
    return std::unique_ptr<InputForwarder>(new InputForwarder(loop, source, std::move(timer)));
}

base::Result<std::unique_ptr<InputForwarder>> InputForwarder::create(platform::EventLoop& loop,
                                                                     platform::UniqueFd source) {
    GPURUN_ASSIGN(auto forwarder, create(loop, source.get()));
    forwarder->own_source_ = std::move(source);
    return forwarder;
}

InputForwarder::InputForwarder(platform::EventLoop& loop, int source, platform::Timer timer)
    : loop_(loop), source_(source), terminal_(platform::is_terminal(source)), timer_(std::move(timer)),
      readable_(loop, source, [this] { read_source(); }), later_(loop, timer_.fd(), [this] {
          timer_.acknowledge();
          look_again();
      }) {
    later_.wait_for(platform::Ready::kReadable);
}

void InputForwarder::connect(uint32_t rank, platform::UniqueFd target) {
    Reader& reader = readers_.emplace_back();
    reader.rank = rank;
    reader.fd = std::move(target);
    reader.taken = pending_.size();
    reader.room = platform::Watch(loop_, reader.fd.get(), [this, &reader] { on_room(reader); });
    advance();
}

void InputForwarder::look_again() { advance(); }

void InputForwarder::disconnect(uint32_t rank) {
    for (Reader& reader : readers_)
        reader.gone = reader.gone || reader.rank == rank;
    advance();
}

void InputForwarder::read_source() {
    readable_.wait_for(platform::Ready::kNothing);
    if (terminal_ && !platform::in_foreground(source_)) {
        timer_.start(kLookAgainMs);
        return;
    }
    std::array<char, kInputBytes> chunk;
    const platform::Transfer got = platform::read_now(source_, chunk);
    if (got.state == platform::StreamState::kClosed) {
        stop(); // those that read see the end of their input
        return;
    }
    pending_.assign(chunk.data(), got.bytes);
    for (Reader& reader : readers_) {
        reader.taken = 0;
        write(reader);
    }
    advance();
}

void InputForwarder::on_room(Reader& reader) {
    if (pending_.empty()) {
        reader.room.wait_for(platform::Ready::kNothing);
        read_source();
        return;
    }
    write(reader);
    advance();
}

void InputForwarder::write(Reader& reader) {
    const platform::Transfer written =
        platform::write_now(reader.fd.get(), std::string_view(pending_).substr(reader.taken));
    reader.taken += written.bytes;
    reader.gone = written.state == platform::StreamState::kClosed;
    reader.room.wait_for(written.state == platform::StreamState::kWouldWait ? platform::Ready::kWritable
                                                                            : platform::Ready::kNothing);
}

// Waits for the next piece once every reader has taken this one.
void InputForwarder::advance() {
    readers_.remove_if([](const Reader& reader) { return reader.gone; });
    if (readers_.empty()) {
        stop();
        return;
    }
    if (std::any_of(readers_.begin(), readers_.end(),
                    [this](const Reader& reader) { return reader.taken < pending_.size(); }))
        return;
    pending_.clear();
    for (Reader& reader : readers_)
        reader.taken = 0;
    // Files have no readiness: they are read when there is room for what is in them.
    if (!readable_.wait_for(platform::Ready::kReadable))
        readers_.front().room.wait_for(platform::Ready::kWritable);
}

void InputForwarder::stop() {
    readable_.stop();
    own_source_.reset();
    readers_.clear();
}

} // namespace gpurun::launcher
