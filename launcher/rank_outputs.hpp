// Where what the ranks of a Job print goes: to gpurun's own outputs (outputs.hpp), or, on a node of a job of several,
// to the gpurun that the user has started (node_outputs.hpp). Everything runs on the event loop's thread.
#pragma once

#include "platform/pseudo_terminal.hpp"
#include "platform/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace gpurun::launcher {

class RankOutputs {
  public:
    virtual ~RankOutputs() = default;

    // From now on forwards what `rank` writes. `stop_writer` is that of its standard output if that is a terminal.
    // REQUIRES: ranks connect in their order.
    virtual void connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error,
                         std::function<void()> stop_writer) = 0;
    // What is left for a rank's lines of the terminal that they get to.
    virtual platform::WindowSize window_for(uint32_t rank) const = 0;
    // The terminals of ranks get the size of gpurun's, which has changed.
    virtual void fit_terminals() = 0;
    // Whether what ranks print gets to a terminal, and nowhere else.
    virtual bool only_on_terminal() const = 0;
    // Forwards what it has written so far.
    virtual void pump(uint32_t rank) = 0;
    // The last line of its standard error, for people; "" if there is none.
    virtual std::string last_error_line(uint32_t rank) const = 0;
    // A line of gpurun's own, or several.
    virtual void say(const std::string& text) = 0;

    // Every rank has ended: what is in their pipes now is all that counts.
    virtual void finish() = 0;
    virtual bool passed() const = 0; // everything
    virtual bool failed() const = 0; // to write some of it
    // Whoever read gpurun's standard output has gone.
    virtual bool reader_gone() const = 0;
    // No more waiting: what could not be written by now is lost.
    virtual void close() = 0;
};

} // namespace gpurun::launcher
