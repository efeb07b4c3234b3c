// Forwards gpurun's own input to the ranks that are to read it, as fast as the slowest of them reads.
//
// Needed where they cannot read it themselves: from a terminal, because ranks are in process groups of their own,
// which may not; and where all are to read the same. While gpurun is in the background, it does not read what is typed.
// Runs on the event loop's thread.
#pragma once

#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"
#include "platform/unique_fd.hpp"

#include <list>
#include <memory>
#include <string>

namespace gpurun::launcher {

class InputForwarder {
  public:
    // Of `source`, which stays the caller's, or which is closed once nobody reads any more.
    static base::Result<std::unique_ptr<InputForwarder>> create(platform::EventLoop& loop, int source);
    static base::Result<std::unique_ptr<InputForwarder>> create(platform::EventLoop& loop, platform::UniqueFd source);
    InputForwarder(const InputForwarder&) = delete;

    // From now on `rank` is brought everything that has not been read yet.
    void connect(uint32_t rank, platform::UniqueFd target);
    // gpurun may be in the foreground now.
    void look_again();
    // A rank has ended. Without ranks nothing is read any more.
    void disconnect(uint32_t rank);

  private:
    struct Reader {
        uint32_t rank = 0;
        platform::UniqueFd fd;
        size_t taken = 0; // of pending_
        platform::Watch room;
        bool gone = false;
    };

    InputForwarder(platform::EventLoop& loop, int source, platform::Timer timer);
    void read_source();
    void on_room(Reader& reader);
    void write(Reader& reader);
    void advance();
    void stop();

    platform::EventLoop& loop_;
    int source_;
    platform::UniqueFd own_source_; // if it is
    bool terminal_;
    platform::Timer timer_;
    std::string pending_;
    std::list<Reader> readers_; // their watches' handlers refer to them
    platform::Watch readable_;
    platform::Watch later_;
};

} // namespace gpurun::launcher
