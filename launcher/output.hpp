// The way of what ranks print: from their pipes and terminals to gpurun's outputs and to files.
//
// An OutputSink is one output, a descriptor; an OutputPump forwards one stream of one rank to it, by whole lines.
// A sink that cannot take more stops its pumps, their streams fill, and the ranks wait: nothing grows. A line that is
// too long to be kept passes as it comes, and stops the other pumps of its sink (floor.hpp). Everything runs on the
// event loop's thread; a sink outlives its pumps.
#pragma once

#include "floor.hpp"
#include "last_line.hpp"
#include "line_buffer.hpp"
#include "line_tag.hpp"
#include "pace.hpp"
#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

class OutputSink {
  public:
    // Is told once that it cannot be written, and why.
    using Complain = std::function<void(const std::string& line)>;

    // `name` is for the line that says that it cannot be written.
    OutputSink(platform::EventLoop& loop, int fd, std::string name, Complain complain = {});
    OutputSink(const OutputSink&) = delete;
    // Several ranks write to it, by whole lines. `tick` becomes its own.
    void share(platform::Timer tick);

    // Takes all of `text`, even where it has to keep some for later. Callers that have a choice ask ready_for() first.
    void write(std::string_view text);
    // The same, with `tag` before each line. Where another writer has left a line unfinished, that is ended first.
    void write_tagged(const void* writer, const LineTag& tag, std::string_view text);
    // Lines of gpurun's own, which begin a new line, and not one over a progress bar.
    void write_lines(std::string_view lines);
    // `writer` is in the middle of a line that goes on with what it writes next.
    void begin_long_line(const void* writer);
    void end_long_line(const void* writer);
    bool in_long_line_of(const void* writer) const { return floor_ && floor_->held_by(writer); }
    bool ready() const { return pending_.empty(); }
    bool ready_for(const void* writer) const { return ready() && (!floor_ || floor_->is_free_for(writer)); }
    // Nobody reads it any more, or it cannot be written.
    bool closed() const { return closed_; }
    // It could not be written, though there is somebody, or something, to read it.
    bool failed() const { return failed_; }
    // Drops what is kept and all that comes.
    void close();
    // Calls `resume` once, when the sink is worth asking again, or closed. REQUIRES: it is not ready_for(writer).
    void call_when_ready(const void* writer, std::function<void()> resume);

  private:
    void put(std::string_view text);
    void flush();

    int fd_;
    std::string name_;
    Complain complain_;
    bool closed_ = false;
    bool failed_ = false;
    char last_byte_ = '\n';
    const void* last_tagged_ = nullptr; // who wrote last, if it was tagged
    std::string pending_;
    std::vector<std::function<void()>> waiting_; // for room
    std::optional<Floor> floor_;
    platform::EventLoop& loop_;
    platform::Watch room_;
};

// The sinks of one stream of one rank: one, both or none.
struct OutputRoute {
    OutputSink* shown = nullptr;
    OutputSink* file = nullptr; // byte for byte, without tags
    LineTag tag;                // for `shown`
    bool by_lines = true;       // for `shown`
    // Ends who writes on when nobody reads any more. None where the stream is a pipe: its end does that.
    std::function<void()> stop_writer;
    // For a terminal: lets lines gather while many come, one by one. None: each is read as it comes.
    Pace* pace = nullptr;
};

class OutputPump {
  public:
    OutputPump(platform::EventLoop& loop, platform::UniqueFd source, OutputRoute route);
    OutputPump(const OutputPump&) = delete;

    // Forwards what has been written by now.
    void pump();
    // The rank has ended: what has been written by now is the end of the stream, even if somebody keeps it open.
    void finish();
    bool done() const { return !source_; }
    std::string last_line() const { return last_.text(); }
    int source() const { return source_.get(); } // -1 if it is done

  private:
    platform::Transfer read(std::span<char> chunk) const;
    void give_up();
    void take(std::string_view text);
    void show(std::string_view text);
    OutputSink* full() const;
    bool closed() const;
    void wait_for(OutputSink& sink);
    bool too_many_pieces(size_t bytes);
    void rest();
    void end();

    OutputRoute route_;
    platform::UniqueFd source_;
    bool paused_ = false;
    bool resting_ = false;
    std::chrono::steady_clock::time_point last_piece_; // that was small
    int64_t pieces_ = 0;                               // small ones, without a pause between them
    bool unread_ = false; // nobody reads any more, and what was under way then has been dropped
    size_t left_to_read_;
    bool finishing_ = false;
    LineBuffer lines_;
    LastLine last_;
    platform::Watch readable_;
};

} // namespace gpurun::launcher
