#include "output.hpp"

#include "base/format.hpp"
#include "line_end.hpp"

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
// Less than a terminal keeps for its reader. So many pieces of that size are a flood of lines, until none comes for
// the time of a pause.
constexpr size_t kSmallPieceBytes = 4096;
constexpr int kManyPieces = 32;
constexpr std::chrono::milliseconds kPause{5};
} // namespace

OutputSink::OutputSink(platform::EventLoop& loop, int fd, std::string name, Complain complain)
    : fd_(fd), name_(std::move(name)), complain_(std::move(complain)), loop_(loop),
      room_(loop, fd, [this] { flush(); }) {}

void OutputSink::share(platform::Timer tick) {
    floor_.emplace(loop_, std::move(tick), [this] { return !ready(); });
}

void OutputSink::write(std::string_view text) {
    if (closed_ || text.empty())
        return;
    last_byte_ = text.back();
    last_tagged_ = nullptr;
    put(text);
}

void OutputSink::write_tagged(const void* writer, const LineTag& tag, std::string_view text) {
    const bool is_rest_of_end = last_byte_ == '\r' && text.starts_with('\n');
    const bool continues = last_tagged_ == writer && (!ends_line(last_byte_) || is_rest_of_end);
    std::string marked = ends_line(last_byte_) || continues ? "" : "\n";
    tag.mark(text, !continues, marked);
    write(marked);
    last_tagged_ = writer;
}

void OutputSink::write_lines(std::string_view lines) {
    write(base::format("{}{}", last_byte_ == '\n' ? "" : "\n", lines));
}

void OutputSink::begin_long_line(const void* writer) {
    if (floor_)
        floor_->take(writer);
}

void OutputSink::end_long_line(const void* writer) {
    if (floor_)
        floor_->leave(writer);
}

void OutputSink::call_when_ready(const void* writer, std::function<void()> resume) {
    if (floor_ && !floor_->is_free_for(writer))
        floor_->ask(std::move(resume));
    else
        waiting_.push_back(std::move(resume));
}

void OutputSink::put(std::string_view text) {
    if (pending_.empty()) {
        const platform::Transfer written = platform::write_now(fd_, text);
        text.remove_prefix(written.bytes);
        if (written.state == platform::StreamState::kClosed) {
            failed_ = written.error_number != 0;
            close();
            if (failed_ && complain_)
                complain_(base::format("writing {}: {}", name_, std::generic_category().message(written.error_number)));
            return;
        }
    }
    pending_ += text;
    if (!pending_.empty())
        room_.wait_for(platform::Ready::kWritable);
}

void OutputSink::flush() {
    const std::string text = std::exchange(pending_, {});
    put(text);
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
    if (floor_)
        floor_->clear();
    for (const auto& resume : std::exchange(waiting_, {}))
        resume();
}

OutputPump::OutputPump(platform::EventLoop& loop, platform::UniqueFd source, OutputRoute route)
    : route_(std::move(route)), source_(std::move(source)), left_to_read_(kRoundBytes),
      readable_(loop, source_.get(), [this] { pump(); }) {
    readable_.wait_for(platform::Ready::kReadable);
}

// As much as is there and fits. A terminal gives it in pieces of one line or a few.
platform::Transfer OutputPump::read(std::span<char> chunk) const {
    platform::Transfer all = platform::read_now(source_.get(), chunk);
    while (all.state == platform::StreamState::kOpen && all.bytes < chunk.size()) {
        const platform::Transfer more = platform::read_now(source_.get(), chunk.subspan(all.bytes));
        if (more.state != platform::StreamState::kOpen)
            break; // the end is seen again
        all.bytes += more.bytes;
    }
    return all;
}

void OutputPump::pump() {
    std::array<char, kChunkBytes> chunk;
    if (done() || paused_)
        return;
    if (!finishing_)
        left_to_read_ = kRoundBytes;
    const size_t before = left_to_read_;
    while (left_to_read_ > 0) {
        if (closed()) {
            give_up();
            return;
        }
        if (OutputSink* const sink = full(); sink != nullptr) {
            wait_for(*sink);
            return;
        }
        const platform::Transfer got = read(std::span(chunk).first(std::min(chunk.size(), left_to_read_)));
        if (got.state == platform::StreamState::kWouldWait)
            break;
        if (got.state == platform::StreamState::kClosed) {
            end();
            return;
        }
        left_to_read_ -= got.bytes;
        take({chunk.data(), got.bytes});
    }
    if (finishing_)
        end();
    else if (route_.pace != nullptr && too_many_pieces(before - left_to_read_))
        rest();
}

bool OutputPump::too_many_pieces(size_t bytes) {
    if (bytes >= kSmallPieceBytes)
        return false;
    const auto now = std::chrono::steady_clock::now();
    pieces_ = now - last_piece_ > kPause ? 1 : pieces_ + 1;
    last_piece_ = now;
    return pieces_ > kManyPieces;
}

void OutputPump::rest() {
    if (resting_)
        return;
    resting_ = true;
    readable_.wait_for(platform::Ready::kNothing);
    route_.pace->rest([this] {
        resting_ = false;
        if (!paused_)
            readable_.wait_for(platform::Ready::kReadable);
    });
}

// Nobody reads any more. Whoever writes to a pipe from now on gets SIGPIPE. To a terminal that has to be sent, and it
// is sent to who writes on only: what was under way is dropped, as a pipe drops it.
void OutputPump::give_up() {
    if (!route_.stop_writer || finishing_) {
        end();
        return;
    }
    std::array<char, kChunkBytes> dropped;
    const platform::Transfer got = read(dropped);
    if (got.state == platform::StreamState::kClosed) {
        end();
    } else if (got.bytes > 0 && unread_) {
        route_.stop_writer();
        end();
    }
    unread_ = true;
}

void OutputPump::take(std::string_view text) {
    last_.feed(text);
    if (route_.file != nullptr)
        route_.file->write(text);
    if (route_.shown == nullptr)
        return;
    if (!route_.by_lines) {
        show(text);
        return;
    }
    std::optional<bool> ended; // the line of what is shown last
    const auto pass = [&](std::string_view lines) {
        show(lines);
        ended = ends_line(lines.back());
    };
    if (route_.shown->in_long_line_of(this)) {
        pass(take_line(text));
    }
    lines_.feed(text, pass);
    // Last, because others may go on at once.
    if (ended && *ended)
        route_.shown->end_long_line(this);
    else if (ended)
        route_.shown->begin_long_line(this);
}

void OutputPump::show(std::string_view text) {
    if (route_.tag)
        route_.shown->write_tagged(this, route_.tag, text);
    else
        route_.shown->write(text);
}

void OutputPump::finish() {
    if (finishing_)
        return;
    finishing_ = true;
    left_to_read_ = kLargestPipeBytes;
    pump();
}

OutputSink* OutputPump::full() const {
    for (OutputSink* const sink : {route_.shown, route_.file})
        if (sink != nullptr && !sink->ready_for(this))
            return sink;
    return nullptr;
}

bool OutputPump::closed() const {
    return (route_.shown != nullptr && route_.shown->closed()) || (route_.file != nullptr && route_.file->closed());
}

void OutputPump::wait_for(OutputSink& sink) {
    paused_ = true;
    readable_.wait_for(platform::Ready::kNothing);
    sink.call_when_ready(this, [this] {
        paused_ = false;
        if (!resting_)
            readable_.wait_for(platform::Ready::kReadable);
        if (finishing_ || closed())
            pump();
    });
}

void OutputPump::end() {
    lines_.finish([this](std::string_view rest) { show(rest); });
    readable_.stop();
    source_.reset(); // a rank that still writes gets what it would get from a closed pipe without gpurun
    if (route_.shown != nullptr)
        route_.shown->end_long_line(this);
}

} // namespace gpurun::launcher
