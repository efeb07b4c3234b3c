#include "agent.hpp"

#include "base/format.hpp"
#include "environment.hpp"

#include <array>
#include <cstdlib>

namespace gpurun::launcher {

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

void Agent::read() {
    std::array<char, 4096> chunk;
    const platform::Transfer got = platform::read_now(output_.get(), chunk);
    if (got.state == platform::StreamState::kOpen)
        lines_.feed({chunk.data(), got.bytes}, there_.on_line);
    else if (got.state == platform::StreamState::kClosed) {
        readable_.stop();
        lines_.finish(there_.on_line);
    }
}

void Agent::on_process_end() {
    if (!process_.end())
        return;
    live_ = false;
    ended_.stop();
    read(); // what it printed last says why
    lines_.finish(there_.on_line);
    there_.on_end();
}

std::string Agent::describe_end() const {
    const auto end = process_.end();
    return !end             ? "has ended"
           : end->by_signal ? base::format("was killed by signal {}", end->value)
                            : base::format("ended with status {}", end->value);
}

} // namespace gpurun::launcher
