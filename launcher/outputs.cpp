#include "outputs.hpp"

#include "base/format.hpp"
#include "own_lines.hpp"
#include "platform/byte_stream.hpp"
#include "platform/host_name.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace gpurun::launcher {

using platform::kStandardError;
using platform::kStandardOutput;

namespace {

constexpr const char* kRanksOutput = "the ranks' output";

// By no-color.org, and only on a terminal that has colours.
bool wants_colour(int fd) {
    const char* refused = std::getenv("NO_COLOR");
    const char* kind = std::getenv("TERM");
    return platform::is_terminal(fd) && (refused == nullptr || *refused == '\0') && kind != nullptr &&
           std::string_view(kind) != "dumb";
}

} // namespace

base::Result<std::unique_ptr<Outputs>> Outputs::create(platform::EventLoop& loop, const OutputOptions& options,
                                                       uint32_t ranks) {
    GPURUN_ASSIGN(platform::Timer end_of_rest, platform::Timer::create());
    std::unique_ptr<Outputs> outputs(new Outputs(loop, std::move(end_of_rest), options, ranks));
    if (ranks > 1)
        GPURUN_TRY(outputs->share());
    if (!options.folder.empty())
        GPURUN_TRY(outputs->make_files(ranks));
    return outputs;
}

Outputs::Outputs(platform::EventLoop& loop, platform::Timer end_of_rest, const OutputOptions& options, uint32_t ranks)
    : loop_(loop), options_(options), alone_(ranks == 1), own_out_(platform::own_write_end(kStandardOutput)),
      own_error_out_(platform::own_write_end(kStandardError)),
      out_(loop, own_out_ ? own_out_.get() : kStandardOutput, kRanksOutput, [this](const auto& line) { say(line); }),
      error_(platform::same_file(kStandardOutput, kStandardError)
                 ? out_
                 : own_error_.emplace(loop, own_error_out_ ? own_error_out_.get() : kStandardError, kRanksOutput)),
      colour_out_(wants_colour(kStandardOutput)), colour_error_(wants_colour(kStandardError)),
      pace_(loop, std::move(end_of_rest)) {}

base::Result<void> Outputs::share() {
    GPURUN_ASSIGN(platform::Timer tick, platform::Timer::create());
    out_.share(std::move(tick));
    if (own_error_) {
        GPURUN_ASSIGN(platform::Timer own_tick, platform::Timer::create());
        own_error_->share(std::move(own_tick));
    }
    return {};
}

base::Result<void> Outputs::make_files(uint32_t ranks) {
    std::error_code failed;
    std::filesystem::create_directories(options_.folder, failed);
    if (failed)
        return base::error(base::Status::kSystem, "--output-dir={}: {}", options_.folder, failed.message());
    for (uint32_t rank = 0; rank < ranks; ++rank)
        for (const char* stream : {"out", "err"}) {
            const std::string path = base::format("{}/rank-{}.{}", options_.folder, rank, stream);
            GPURUN_ASSIGN(platform::UniqueFd fd, platform::create_file(path));
            auto sink = std::make_unique<OutputSink>(loop_, fd.get(), path, [this](const auto& line) { say(line); });
            files_.push_back({std::move(fd), std::move(sink)});
        }
    return {};
}

TagStyle Outputs::tag_style(uint32_t rank, bool colour) const {
    TagStyle style{options_.tag, options_.timestamp, colour, ""};
    if (options_.tag_host)
        style.host = hosts_.empty() ? platform::host_name() : hosts_[rank];
    return style;
}

OutputRoute Outputs::route(uint32_t rank, OutputSink& shown, bool colour, size_t file) const {
    OutputRoute route;
    if (options_.shown.has(rank))
        route.shown = &shown;
    if (file < files_.size())
        route.file = files_[file].sink.get();
    route.tag = LineTag(rank, tag_style(rank, colour));
    route.by_lines = !alone_;
    return route;
}

void Outputs::connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error,
                      std::function<void()> stop_writer) {
    const size_t file = size_t{2} * rank;
    OutputRoute out_route = route(rank, out_, colour_out_, file);
    out_route.stop_writer = std::move(stop_writer);
    const bool on_terminal = static_cast<bool>(out_route.stop_writer);
    if (on_terminal)
        out_route.pace = &pace_;
    streams_.emplace_back(new Streams{on_terminal,
                                      {loop_, std::move(out), std::move(out_route)},
                                      {loop_, std::move(error), route(rank, error_, colour_error_, file + 1)}});
}

platform::WindowSize Outputs::window_for(uint32_t rank) const {
    platform::WindowSize size = platform::window_size(kStandardOutput);
    const size_t tag = LineTag(rank, tag_style(rank, false)).columns();
    if (size.columns > tag)
        size.columns = static_cast<uint16_t>(size.columns - tag);
    return size;
}

void Outputs::fit_terminals() {
    for (uint32_t rank = 0; rank < streams_.size(); ++rank)
        if (streams_[rank]->on_terminal && !streams_[rank]->out.done())
            platform::set_window_size(streams_[rank]->out.source(), window_for(rank));
}

bool Outputs::only_on_terminal() const { return platform::is_terminal(kStandardOutput) && files_.empty(); }

void Outputs::pump(uint32_t rank) {
    streams_[rank]->out.pump();
    streams_[rank]->error.pump();
}

void Outputs::say(const std::string& text) { error_.write_lines(as_own_lines(text)); }

void Outputs::finish() {
    for (const auto& streams : streams_) {
        streams->out.finish();
        streams->error.finish();
    }
}

bool Outputs::passed() const {
    for (const auto& streams : streams_)
        if (!streams->out.done() || !streams->error.done())
            return false;
    for (const File& file : files_)
        if (!file.sink->ready())
            return false;
    return out_.ready() && error_.ready();
}

bool Outputs::failed() const {
    return out_.failed() || error_.failed() ||
           std::any_of(files_.begin(), files_.end(), [](const File& file) { return file.sink->failed(); });
}

void Outputs::close() {
    out_.close();
    error_.close();
    for (const File& file : files_)
        file.sink->close();
}

} // namespace gpurun::launcher
