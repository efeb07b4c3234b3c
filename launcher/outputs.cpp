#include "outputs.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace gpurun::launcher {

namespace {

constexpr int kOut = 1;
constexpr int kError = 2;
constexpr const char* kRanksOutput = "the ranks' output";

// no-color.org; and a terminal that says so itself.
bool wants_colour(int fd) {
    const char* refused = std::getenv("NO_COLOR");
    const char* kind = std::getenv("TERM");
    return platform::is_terminal(fd) && (refused == nullptr || *refused == '\0') && kind != nullptr &&
           std::string_view(kind) != "dumb";
}

} // namespace

base::Result<std::unique_ptr<Outputs>> Outputs::create(platform::EventLoop& loop, const OutputOptions& options,
                                                       uint32_t ranks) {
    std::unique_ptr<Outputs> outputs(new Outputs(loop, options, ranks));
    if (ranks > 1)
        GPURUN_TRY(outputs->share());
    if (!options.folder.empty())
        GPURUN_TRY(outputs->make_files(ranks));
    return outputs;
}

Outputs::Outputs(platform::EventLoop& loop, const OutputOptions& options, uint32_t ranks)
    : loop_(loop), options_(options), alone_(ranks == 1), own_out_(platform::own_write_end(kOut)),
      own_error_out_(platform::own_write_end(kError)), out_(loop, own_out_ ? own_out_.get() : kOut, kRanksOutput),
      error_(platform::same_file(kOut, kError)
                 ? out_
                 : own_error_.emplace(loop, own_error_out_ ? own_error_out_.get() : kError, kRanksOutput)),
      colour_out_(wants_colour(kOut)), colour_error_(wants_colour(kError)) {}

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
            auto sink = std::make_unique<OutputSink>(loop_, fd.get(), path);
            files_.push_back({std::move(fd), std::move(sink)});
        }
    return {};
}

OutputRoute Outputs::route(uint32_t rank, OutputSink& shown, bool colour, size_t file) const {
    OutputRoute route;
    if (options_.shown.has(rank))
        route.shown = &shown;
    if (file < files_.size())
        route.file = files_[file].sink.get();
    route.tag = LineTag(rank, {options_.tag, options_.timestamp, colour});
    route.by_lines = !alone_;
    return route;
}

void Outputs::connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error) {
    const size_t file = size_t{2} * rank;
    streams_.emplace_back(new Streams{{loop_, std::move(out), route(rank, out_, colour_out_, file)},
                                      {loop_, std::move(error), route(rank, error_, colour_error_, file + 1)}});
}

void Outputs::pump(uint32_t rank) {
    streams_[rank]->out.pump();
    streams_[rank]->error.pump();
}

void Outputs::say(const std::string& line) { error_.write_line(base::format("gpurun: {}", line)); }

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
