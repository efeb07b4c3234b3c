#include "verdict.hpp"

#include "base/format.hpp"
#include "platform/signals.hpp"

namespace gpurun::launcher {

std::optional<Failure> judge(const RankEnd& end) {
    if (end.process.by_signal)
        return Failure{128 + end.process.value, base::format("was killed by signal {} ({})", end.process.value,
                                                             platform::describe_signal(end.process.value))};
    if (end.process.value != 0)
        return Failure{end.process.value, base::format("exited with status {}", end.process.value)};
    if (end.said_hello && !end.finalized)
        return Failure{1, "exited without gpurun_finalize()"};
    if (!end.said_hello && end.others_wait)
        return Failure{1, "exited without gpurun_init(), in which other ranks wait for it"};
    return std::nullopt;
}

int exit_status_of(const base::Error& error) { return error.status == base::Status::kArgument ? 2 : 1; }

} // namespace gpurun::launcher
