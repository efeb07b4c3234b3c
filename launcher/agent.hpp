// What starts gpurun on another host, such as ssh: a child process that is told on its standard input whom the node is
// to call, and with which key. What it prints is given on line by line. It ends with this, or with its head: a daemon
// that it has started notices that by itself. Runs on the event loop's thread.
#pragma once

#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"
#include "platform/process.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::launcher {

class Agent {
  public:
    struct Surroundings {
        platform::EventLoop& loop;
        const char* const* environment;
        const sigset_t& signal_mask;
        size_t descriptor_limit;
        std::function<void(std::string_view line)> on_line; // one, without its end
        std::function<void()> on_end;                       // once; may not destroy the agent
    };
    // `words`: the program and its arguments. `told`: what its standard input has.
    static base::Result<std::unique_ptr<Agent>> start(const std::vector<std::string>& words, const std::string& told,
                                                      Surroundings there);
    Agent(const Agent&) = delete;

    bool live() const { return live_; }
    // For people: "ended with status 255". REQUIRES: !live()
    std::string describe_end() const;

  private:
    Agent(platform::ChildProcess process, platform::UniqueFd output, Surroundings there);
    bool read();
    void take(std::string_view text);
    void end_line();
    void on_process_end();

    Surroundings there_;
    platform::ChildProcess process_;
    platform::UniqueFd output_;
    std::string line_; // that has not ended
    bool live_ = true;
    platform::Watch readable_;
    platform::Watch ended_;
};

} // namespace gpurun::launcher
