// All outputs of a job, gpurun's own two and files, and all streams of its ranks.
//
// Which rank is shown, how its lines are tagged, and which files there are is decided here, once; output.hpp moves
// the bytes. Everything runs on the event loop's thread.
#pragma once

#include "output.hpp"
#include "output_options.hpp"
#include "rank_outputs.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

class Outputs : public RankOutputs {
  public:
    // Makes the folder and the files, if they are asked for; what the files held before is lost.
    static base::Result<std::unique_ptr<Outputs>> create(platform::EventLoop& loop, const OutputOptions& options,
                                                         uint32_t ranks);
    Outputs(const Outputs&) = delete;
    // Where each rank runs; before connect(). Else all run here.
    void name_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

    void connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error,
                 std::function<void()> stop_writer) override;
    platform::WindowSize window_for(uint32_t rank) const override;
    void fit_terminals() override;
    bool only_on_terminal() const override;
    void pump(uint32_t rank) override;
    std::string last_error_line(uint32_t rank) const override { return streams_[rank]->error.last_line(); }
    void say(const std::string& text) override;

    void finish() override;
    bool passed() const override;
    bool failed() const override;
    bool reader_gone() const override { return out_.closed() && !out_.failed(); }
    void close() override;

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

    Outputs(platform::EventLoop& loop, platform::Timer end_of_rest, const OutputOptions& options, uint32_t ranks);
    base::Result<void> share();
    base::Result<void> make_files(uint32_t ranks);
    TagStyle tag_style(uint32_t rank, bool colour) const;
    OutputRoute route(uint32_t rank, OutputSink& shown, bool colour, size_t file) const;

    platform::EventLoop& loop_;
    OutputOptions options_;
    std::vector<std::string> hosts_; // of the ranks, if there are several
    bool alone_;                     // one rank may show half a line: a prompt, a progress bar
    platform::UniqueFd own_out_; // of a pipe or terminal that others may write to as well; none: of what else there is
    platform::UniqueFd own_error_out_;
    OutputSink out_;
    std::optional<OutputSink> own_error_; // none where both go to the same place, so that they do not mix there
    OutputSink& error_;
    bool colour_out_;
    bool colour_error_;
    Pace pace_;
    std::vector<File> files_; // two for each rank, or none
    std::vector<std::unique_ptr<Streams>> streams_;
};

} // namespace gpurun::launcher
