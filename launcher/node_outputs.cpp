#include "node_outputs.hpp"

#include "line_tag.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace gpurun::launcher {

using node_wire::Kind;

namespace {

// The most that a pipe can hold unless the administrator allows more: what is read of a rank that has ended.
constexpr size_t kFullPipeBytes = size_t{1} << 20;

} // namespace

NodeOutputs::NodeOutputs(platform::EventLoop& loop, Send send, uint32_t first_rank, OutputOptions options,
                         Terminal terminal)
    : loop_(loop), send_(std::move(send)), first_rank_(first_rank), options_(std::move(options)), terminal_(terminal) {}

NodeOutputs::Stream* NodeOutputs::find(const node_wire::OutputOf& of) {
    const size_t rank = size_t{of.rank} - first_rank_;
    const size_t index = rank * node_wire::kStreams + of.stream;
    return of.rank >= first_rank_ && of.stream < node_wire::kStreams && index < streams_.size() ? streams_[index].get()
                                                                                                : nullptr;
}

bool NodeOutputs::taken(std::string_view message) {
    const auto taken = node_wire::message_of<node_wire::OutputTaken>(message);
    Stream* const stream = taken ? find(taken->of) : nullptr;
    if (stream == nullptr || taken->bytes > node_wire::kOutputWindow - stream->window)
        return false;
    stream->window += taken->bytes;
    pump(*stream);
    return true;
}

bool NodeOutputs::closed(std::string_view message) {
    const auto of = node_wire::message_of<node_wire::OutputOf>(message);
    Stream* const stream = of ? find(*of) : nullptr;
    if (stream == nullptr)
        return false;
    stream->unread = true;
    pump(*stream);
    return true;
}

void NodeOutputs::connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error,
                          std::function<void()> stop_writer) {
    GPURUN_ASSERT(streams_.size() == size_t{rank} * node_wire::kStreams);
    add(std::move(out), rank, 0, std::move(stop_writer));
    add(std::move(error), rank, 1, {});
}

void NodeOutputs::add(platform::UniqueFd source, uint32_t rank, uint32_t number, std::function<void()> stop_writer) {
    Stream& stream = *streams_.emplace_back(std::make_unique<Stream>());
    stream.source = std::move(source);
    stream.of = {first_rank_ + rank, number};
    stream.stop_writer = std::move(stop_writer);
    stream.readable = platform::Watch(loop_, stream.source.get(), [this, &stream] { pump(stream); });
    stream.readable.wait_for(platform::Ready::kReadable);
}

platform::WindowSize NodeOutputs::window_for(uint32_t rank) const {
    platform::WindowSize size = terminal_.size;
    const TagStyle style{options_.tag, options_.timestamp, false, options_.tag_host ? terminal_.host : ""};
    const size_t tag = LineTag(first_rank_ + rank, style).columns();
    if (size.columns > tag)
        size.columns = static_cast<uint16_t>(size.columns - tag);
    return size;
}

void NodeOutputs::pump(uint32_t rank) {
    for (uint32_t stream = 0; stream < node_wire::kStreams; ++stream)
        pump(*streams_[size_t{rank} * node_wire::kStreams + stream]);
}

// What a window takes is a round: the others get their turn until the head has passed that on.
void NodeOutputs::pump(Stream& stream) {
    if (!stream.source)
        return;
    if (stream.unread) {
        drop(stream);
        return;
    }
    while (stream.window > 0 && stream.left > 0)
        if (!forward(stream))
            return;
    if (stream.left == 0)
        end(stream);
    else
        stream.readable.wait_for(platform::Ready::kNothing);
}

// One piece. False: there is none now.
bool NodeOutputs::forward(Stream& stream) {
    std::array<char, sizeof stream.of + node_wire::kOutputWindow> piece;
    std::memcpy(piece.data(), &stream.of, sizeof stream.of);
    const size_t most = std::min<size_t>(stream.window, stream.left);
    const platform::Transfer got =
        platform::read_now(stream.source.get(), std::span(piece).subspan(sizeof stream.of, most));
    if (got.state == platform::StreamState::kClosed ||
        (got.state == platform::StreamState::kWouldWait && stream.finishing)) {
        end(stream);
        return false;
    }
    if (got.state == platform::StreamState::kWouldWait) {
        stream.readable.wait_for(platform::Ready::kReadable);
        return false;
    }
    const auto bytes = static_cast<uint32_t>(got.bytes);
    stream.last.feed({piece.data() + sizeof stream.of, bytes});
    stream.window -= bytes;
    if (stream.finishing)
        stream.left -= bytes;
    send_(Kind::kOutput, {piece.data(), sizeof stream.of + bytes});
    return true;
}

// Whoever writes to a pipe from now on gets SIGPIPE. To a terminal that has to be sent, and it is sent to who writes on
// only: what was under way is dropped, as a pipe drops it.
void NodeOutputs::drop(Stream& stream) {
    if (!stream.stop_writer || stream.finishing) {
        end(stream);
        return;
    }
    std::array<char, node_wire::kOutputWindow> unread;
    const platform::Transfer got = platform::read_now(stream.source.get(), unread);
    stream.readable.wait_for(platform::Ready::kReadable);
    if (got.state == platform::StreamState::kClosed) {
        end(stream);
    } else if (got.bytes > 0 && stream.dropped) {
        stream.stop_writer();
        end(stream);
    }
    stream.dropped = true;
}

void NodeOutputs::end(Stream& stream) {
    if (!stream.source)
        return;
    stream.readable.stop();
    stream.source.reset();
    send_(Kind::kOutputEnd, node_wire::text_of(stream.of));
}

std::string NodeOutputs::last_error_line(uint32_t rank) const {
    return streams_[size_t{rank} * node_wire::kStreams + 1]->last.text();
}

void NodeOutputs::say(const std::string& text) { send_(Kind::kSay, text); }

void NodeOutputs::finish() {
    for (const auto& stream : streams_)
        if (!stream->finishing) {
            stream->finishing = true;
            stream->left = kFullPipeBytes;
            pump(*stream);
        }
}

bool NodeOutputs::passed() const {
    return std::all_of(streams_.begin(), streams_.end(), [](const auto& stream) { return !stream->source; });
}

void NodeOutputs::close() {
    for (const auto& stream : streams_)
        end(*stream);
}

} // namespace gpurun::launcher
