// A job tells gpurun jobs of itself.
#include "job.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "platform/process.hpp"
#include "rank_look.hpp"
#include "summary.hpp"

namespace gpurun::launcher {

namespace wire = platform::wire;

namespace {

std::string command_line_of(const ProgramPlan& program) {
    std::string words;
    for (const std::string& word : program.arguments) {
        if (!words.empty())
            words += ' ';
        words += word;
    }
    return words;
}

} // namespace

void Job::hear_caller(std::span<const std::byte> message, platform::MessageSocket socket) {
    const wire::Header header = wire::header_of(message);
    if (header.magic != wire::kMagic || header.kind != wire::Kind::kQuery)
        launcher::refuse(socket, base::Status::kLauncher,
                         "gpurun has started this job with all its ranks: no process can join it");
    else if (const auto wrong = wrong_protocol(message))
        launcher::refuse(socket, base::Status::kVersion, *wrong);
    else
        listing_.add(std::move(socket));
    if (!listing_.wanted() || inquiry_->under_way())
        return;
    if (ranks_.empty()) {
        listing_.answer(WaitReports(size()));
        return;
    }
    hangs_looks_ = 1;
    inquiry_->start(1);
}

ListedJob Job::describe_job(const WaitReports& reports) const {
    ListedJob job;
    job.name = has_.socket->path().substr(has_.socket->path().rfind('/') + 1);
    job.started_by = "gpurun";
    job.pid = platform::own_pid();
    job.size = has_.segment.size();
    for (uint32_t index = 0; index < size(); ++index) {
        const RankPlan& plan = plan_.ranks[index];
        ListedRank& rank = job.ranks.emplace_back(listed(reports[index], platform::now_ns()));
        rank.rank = number(index);
        rank.node = has_.segment.rank(rank.rank).node;
        rank.program = command_line_of(plan_.programs[plan.program]);
        const std::string& told = assembly_.device(index);
        rank.device = told.empty() ? describe_device(plan.device) : told;
        if (!ranks_.empty())
            rank.pid =
                launcher::pid_of(assembly_, has_.segment, {index, rank.rank, true, ranks_[index]->process.pid()});
    }
    return job;
}

} // namespace gpurun::launcher
