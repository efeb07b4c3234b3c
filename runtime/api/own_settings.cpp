#include "api/own_settings.hpp"

#include "base/format.hpp"
#include "platform/launched_rank.hpp"
#include "platform/other_launchers.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

using Environment = std::function<const char*(const char*)>;

// As everywhere: an empty value counts as unset.
bool is_set(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
}

// As whom a process joins that gpurun did not start, and that has not been told in full.
Result<std::optional<Membership>> told_by_launcher(const Environment& environment,
                                                   const std::optional<platform::OtherLauncher>& other) {
    if (is_set("GPURUN_RANK"))
        return std::optional<Membership>();
    const std::string job = is_set("GPURUN_JOB") ? std::getenv("GPURUN_JOB") : "";
    if (!job.empty() && other)
        return std::optional(Membership{.job = job, .rank = other->rank, .size = other->size});
    if (is_set("GPURUN_SIZE") || is_set("TORCHELASTIC_RUN_ID")) // torchrun, which a launcher may have started
        return std::optional<Membership>();
    GPURUN_ASSIGN(const std::optional<platform::LaunchedRank> launched, platform::launched_rank(environment));
    if (!launched)
        return std::optional<Membership>();
    Membership self{.job = job.empty() ? launched->job : job,
                    .rank = std::to_string(launched->rank),
                    .size = std::to_string(launched->size),
                    .takes_gpus_in_turn = true,
                    .local_rank = static_cast<int>(launched->local_rank),
                    .local_size = static_cast<int>(launched->local_size),
                    .meet = launched->meet};
    // Likewise; unless a script has set RANK and WORLD_SIZE to what the launcher says.
    const bool started_others = other && std::string_view(other->name) == platform::kTorchrun &&
                                (other->rank != self.rank || other->size != self.size);
    return started_others ? std::optional<Membership>() : std::optional(std::move(self));
}

// `other` has started several processes, of which this one joins no job.
Result<void> judge_alone(const platform::OtherLauncher& other) {
    if (std::string_view(other.name) == platform::kSlurm && !is_set("GPURUN_SIZE"))
        return base::error(
            Status::kSetting,
            "this is task {} of {} that srun has started, and nothing tells them of each other: add "
            "--mpi=pmix (or pmi2) to srun, or leave srun out (in an allocation gpurun ./app starts ranks "
            "on all of its nodes), or set GPURUN_SIZE=1 if each is to be a job of its own",
            other.rank, other.size);
    std::fprintf(stderr,
                 "gpurun: this is process %s of %s of %s, but a gpurun job of one rank: set GPURUN_JOB to a name "
                 "that all of them share, or use gpurun -n %s\n",
                 other.rank.c_str(), other.size.c_str(), other.name, other.size.c_str());
    return {};
}

// The settings of a process that gpurun did not start.
Result<base::Settings> settings_of(const std::optional<Membership>& self) {
    const Environment lookup = [&](const char* name) -> const char* {
        const std::string_view variable = name;
        if (!self)
            return std::getenv(name);
        if (variable == "GPURUN_CONTROL_FD")
            return nullptr;
        return variable == "GPURUN_JOB"    ? self->job.c_str()
               : variable == "GPURUN_RANK" ? self->rank.c_str()
               : variable == "GPURUN_SIZE" ? self->size.c_str()
                                           : std::getenv(name);
    };
    GPURUN_ASSIGN(base::Settings settings, base::read_settings(lookup));
    if (settings.job.empty())
        return settings;
    if (!self && !is_set("GPURUN_SIZE"))
        return base::error(Status::kSetting,
                           "GPURUN_JOB={} names a job, but not which rank this is: set GPURUN_RANK and GPURUN_SIZE too",
                           settings.job);
    const bool is_told = self && self->local_size > 0;
    settings.local_rank = is_told ? self->local_rank : settings.rank;
    settings.local_size = is_told ? self->local_size : settings.size;
    if (self && self->takes_gpus_in_turn)
        settings.auto_device = static_cast<uint32_t>(settings.local_rank);
    if (self && self->meet) {
        GPURUN_ASSIGN(platform::MeetingOfRank meeting, self->meet(settings.join_timeout_s));
        settings.meeting = std::move(meeting.word);
        settings.meeting_listener = meeting.listener.release();
    }
    return settings;
}

} // namespace

Result<base::Settings> own_settings(const Membership* as) {
    if (as != nullptr)
        return settings_of(*as);
    const Environment environment = [](const char* name) { return std::getenv(name); };
    if (is_set("GPURUN_CONTROL_FD"))
        return base::read_settings(environment);
    const auto other = platform::other_launcher(environment);
    GPURUN_ASSIGN(const std::optional<Membership> self, told_by_launcher(environment, other));
    GPURUN_ASSIGN(base::Settings settings, settings_of(self));
    if (other && settings.job.empty() && settings.size == 1)
        GPURUN_TRY(judge_alone(*other));
    return settings;
}

} // namespace gpurun::api
