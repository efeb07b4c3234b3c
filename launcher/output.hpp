// What ranks print, on its way to gpurun's own output.
//
// An OutputSink is one place that output goes to; an OutputPump brings one stream of one rank there, by whole lines.
// A sink that cannot take more stops its pumps, their pipes fill, and the ranks wait: nothing grows. Everything runs
// on the event loop's thread; a sink outlives its pumps.
#pragma once

#include "line_buffer.hpp"
#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

class OutputSink {
  public:
    OutputSink(platform::EventLoop& loop, int fd);
    OutputSink(const OutputSink&) = delete;

    // Takes all of `text`, even where it has to keep some for later. Callers that have a choice ask ready() first.
    void write(std::string_view text);
    bool ready() const { return pending_.empty(); }
    // Nobody reads it any more, or it cannot be written.
    bool closed() const { return closed_; }
    // Drops what is kept and all that comes.
    void close();
    // Calls `resume` once, when the sink is ready again or closed.
    void call_when_ready(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }

  private:
    void flush();

    int fd_;
    bool closed_ = false;
    std::string pending_;
    std::vector<std::function<void()>> waiting_;
    platform::Watch room_;
};

class OutputPump {
  public:
    OutputPump(platform::EventLoop& loop, platform::UniqueFd source, OutputSink& sink, bool by_lines);
    OutputPump(const OutputPump&) = delete;

    // Brings over what is there now.
    void pump();
    // The rank has ended: what is in the pipe now is the end of the stream, even if somebody keeps it open.
    void finish();
    bool done() const { return !source_; }

  private:
    void pass(std::string_view text) { sink_.write(text); }
    void pause();
    void end();

    OutputSink& sink_;
    platform::UniqueFd source_;
    bool by_lines_;
    bool paused_ = false;
    size_t left_to_read_;
    bool finishing_ = false;
    LineBuffer lines_;
    platform::Watch readable_;
};

} // namespace gpurun::launcher
