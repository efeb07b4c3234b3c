// Brings what is typed at gpurun's terminal to rank 0, as fast as rank 0 reads it.
//
// Only for terminals: ranks are in process groups of their own, which may not read from one. While gpurun is in the
// background it leaves what is typed to whoever is in front. Runs on the event loop's thread.
#pragma once

#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"

#include <memory>
#include <string>

namespace gpurun::launcher {

class InputForwarder {
  public:
    static base::Result<std::unique_ptr<InputForwarder>> create(platform::EventLoop& loop, int terminal,
                                                                platform::UniqueFd target);
    InputForwarder(const InputForwarder&) = delete;

    // gpurun may be in front now.
    void look_again();
    // Rank 0 has ended.
    void stop();

  private:
    InputForwarder(platform::EventLoop& loop, int terminal, platform::UniqueFd target, platform::Timer timer);
    void read_terminal();
    void write_target();

    int terminal_;
    platform::UniqueFd target_;
    platform::Timer timer_;
    std::string pending_;
    platform::Watch typed_;
    platform::Watch room_;
    platform::Watch later_;
};

} // namespace gpurun::launcher
