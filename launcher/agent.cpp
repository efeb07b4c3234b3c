#include "agent.hpp"

#include "base/format.hpp"
#include "environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace gpurun::launcher {

namespace {
constexpr size_t kReadBytes = 4096;
constexpr size_t kLongestLine = size_t{1} << 16; // then it is cut
constexpr int kMostReads =
    (1 << 20) / kReadBytes; // the most that a pipe can hold, unless the administrator allows more
} // namespace

base::Result<std::unique_ptr<Agent>> Agent::start(const std::vector<std::string>& words, const std::string& told,
                                                  Surroundings there) {
    const platform::Program found = platform::find_program(words[0], std::getenv("PATH"));
    if (found.exit_status != 0)
        return base::error(base::Status::kSystem, "{}", found.reason);
    GPURUN_ASSIGN(platform::Pipe in, platform::create_pipe());
    GPURUN_ASSIGN(platform::Pipe out, platform::create_pipe());
    platform::SpawnRequest request;
    request.path = found.path;
    request.arguments = words;
    request.environment = environment_with(there.environment, {});
    request.standard_in = in.read_end.get();
    request.standard_out = out.write_end.get();
    request.standard_error = out.write_end.get();
    request.signal_mask = there.signal_mask;
    request.descriptor_limit = there.descriptor_limit;
    GPURUN_ASSIGN(platform::ChildProcess process, platform::ChildProcess::start(request));
    if (const auto failed = process.wait_for_exec(); failed.step != platform::StartFailure::Step::kNone)
        return base::error(base::Status::kSystem, "{} cannot be executed", found.path);
    platform::write_all(in.write_end.get(), told); // less than a pipe takes
    return std::unique_ptr<Agent>(new Agent(std::move(process), std::move(out.read_end), std::move(there)));
}

Agent::Agent(platform::ChildProcess process, platform::UniqueFd output, Surroundings there)
    : there_(std::move(there)), process_(std::move(process)), output_(std::move(output)),
      readable_(there_.loop, output_.get(), [this] { read(); }),
      ended_(there_.loop, process_.pidfd(), [this] { on_process_end(); }) {
    readable_.wait_for(platform::Ready::kReadable);
    ended_.wait_for(platform::Ready::kReadable);
}

// False: nothing more is there now.
bool Agent::read() {
    std::array<char, kReadBytes> chunk;
    const platform::Transfer got = platform::read_now(output_.get(), chunk);
    if (got.state == platform::StreamState::kOpen) {
        take({chunk.data(), got.bytes});
        return true;
    }
    if (got.state == platform::StreamState::kClosed) {
        readable_.stop();
        end_line();
    }
    return false;
}

void Agent::take(std::string_view text) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        line_ += text.substr(0, end);
        if (end < text.size() || line_.size() >= kLongestLine)
            end_line();
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void Agent::end_line() {
    if (const std::string line = std::exchange(line_, {}); !line.empty())
        there_.on_line(line);
}

void Agent::on_process_end() {
    if (!process_.end())
        return;
    live_ = false;
    ended_.stop();
    // What it printed last says why. The pipe may stay open: what it has started has it, too.
    for (int i = 0; i < kMostReads && read(); ++i) {
    }
    end_line();
    there_.on_end();
}

std::string Agent::describe_end() const {
    const auto end = process_.end();
    return !end             ? "has ended"
           : end->by_signal ? base::format("was killed by signal {}", end->value)
                            : base::format("ended with status {}", end->value);
}

} // namespace gpurun::launcher
