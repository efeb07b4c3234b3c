// All outputs of a job, gpurun's own two and files, and all streams of its ranks.
//
// Which rank is shown, how its lines are tagged, and which files there are is decided here, once; output.hpp moves
// the bytes. Everything runs on the event loop's thread.
#pragma once

#include "output.hpp"
#include "output_options.hpp"
#include "platform/pseudo_terminal.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

class Outputs {
  public:
    // Makes the folder and the files, if they are asked for; what the files held before is lost.
    static base::Result<std::unique_ptr<Outputs>> create(platform::EventLoop& loop, const OutputOptions& options,
                                                         uint32_t ranks);
    Outputs(const Outputs&) = delete;

    // From now on forwards what `rank` writes. `stop_writer` is that of its standard output if that is a terminal.
    // REQUIRES: ranks connect in their order.
    void connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error, std::function<void()> stop_writer);
    // What is left for a rank's lines of the terminal that they get to.
    platform::WindowSize window_for(uint32_t rank) const;
    // The terminals of ranks get the size of gpurun's, which has changed.
    void fit_terminals();
    // Whether what ranks print gets to a terminal, and nowhere else.
    bool only_on_terminal() const;
    // Forwards what it has written so far.
    void pump(uint32_t rank);
    // The last line of its standard error, for people; "" if there is none.
    std::string last_error_line(uint32_t rank) const { return streams_[rank]->error.last_line(); }
    // A line of gpurun's own, or several.
    void say(const std::string& text);

    // Every rank has ended: what is in their pipes now is all that counts.
    void finish();
    bool passed() const; // everything
    bool failed() const; // to write some of it
    // Whoever read gpurun's standard output has gone.
    bool reader_gone() const { return out_.closed() && !out_.failed(); }
    // No more waiting: what could not be written by now is lost.
    void close();

  private:
    struct File {
        platform::UniqueFd fd;
        std::unique_ptr<OutputSink> sink;
    };
    struct Streams {
        bool on_terminal;
        OutputPump out;
        OutputPump error;
    };

    Outputs(platform::EventLoop& loop, const OutputOptions& options, uint32_t ranks);
    base::Result<void> share();
    base::Result<void> make_files(uint32_t ranks);
    OutputRoute route(uint32_t rank, OutputSink& shown, bool colour, size_t file) const;

    platform::EventLoop& loop_;
    OutputOptions options_;
    bool alone_;                 // one rank may show half a line: a prompt, a progress bar
    platform::UniqueFd own_out_; // of a pipe or terminal that others may write to as well; none: of what else there is
    platform::UniqueFd own_error_out_;
    OutputSink out_;
    std::optional<OutputSink> own_error_; // none where both go to the same place, so that they do not mix there
    OutputSink& error_;
    bool colour_out_;
    bool colour_error_;
    std::vector<File> files_; // two for each rank, or none
    std::vector<std::unique_ptr<Streams>> streams_;
};

} // namespace gpurun::launcher
