#include "rank_look.hpp"

#include "platform/process_state.hpp"

namespace gpurun::launcher {

using Presence = RankReport::Presence;
using Stage = Assembly::Stage;

int pid_of(const Assembly& assembly, const platform::JobSegment& segment, const RankSeen& rank) {
    const int joined = assembly.stage(rank.index) == Stage::kGone ? segment.rank(rank.number).pid : 0;
    return joined > 0 ? joined : rank.pid;
}

RankReport look_at(const Assembly& assembly, const platform::JobSegment& segment, const RankSeen& rank) {
    RankReport report;
    if (!rank.live) {
        report.presence = Presence::kEnded;
        return report;
    }
    const Stage stage = assembly.stage(rank.index);
    report.since_ns = assembly.stage_since_ns(rank.index);
    report.presence = segment.has_finalized(rank.number) ? Presence::kFinalized
                      : stage == Stage::kSilent          ? Presence::kNoGpurun
                      : stage == Stage::kReady           ? Presence::kReady
                      : stage == Stage::kGone            ? Presence::kNoAnswer
                                                         : Presence::kJoining;
    const platform::ProcessState state = platform::process_state(pid_of(assembly, segment, rank));
    report.system = platform::describe(state);
    report.stopped = state.stopped();
    return report;
}

} // namespace gpurun::launcher
