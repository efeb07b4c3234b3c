#include "job_table.hpp"

#include "base/format.hpp"
#include "text_table.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace {

constexpr size_t kLongestProgram = 40;

using Row = std::vector<std::string>;

std::string cut(const std::string& program) {
    return program.size() <= kLongestProgram ? program : program.substr(0, kLongestProgram - 3) + "...";
}

std::string format_ms(int64_t ms) { return ms < 0 ? "-" : base::format("{:.1f} s", static_cast<double>(ms) / 1000); }

void add_rank(std::vector<Row>& rows, const ListedRank& rank) {
    Row front{std::to_string(rank.rank), cut(or_dash(rank.program)), rank.pid == 0 ? "-" : std::to_string(rank.pid),
              std::to_string(rank.node), or_dash(rank.device),       rank.state};
    const auto add = [&](const std::string& call, int64_t ms, const EntryWords& words, const std::string& what) {
        Row row = front;
        for (const std::string& each : {or_dash(call), format_ms(ms), words.does, words.peer, words.tag,
                                        words.communicator, words.bytes, or_dash(what)})
            row.push_back(each);
        rows.push_back(std::move(row));
        front = Row(front.size()); // said once
        front[0] = std::to_string(rank.rank);
    };
    const EntryWords nothing{"-", "-", "-", "-", "-", "-"};
    for (const ListedWait& wait : rank.waits)
        add(wait.call, wait.ms, wait.words, wait.waits_for);
    if (rank.waits.empty())
        add("", -1, nothing, "");
    if (rank.more_waits > 0)
        add("", -1, nothing, base::format("and {} more", rank.more_waits));
}

std::string table_of_loans(const ListedJob& job) {
    std::vector<Row> rows{{"lender", "bytes", "to", "tag", "communicator", "lent for", "state"}};
    uint32_t more = 0;
    for (const ListedRank& rank : job.ranks) {
        for (const ListedLoan& loan : rank.loans)
            rows.push_back({std::to_string(rank.rank), loan.bytes, loan.to, loan.tag, loan.communicator,
                            format_ms(loan.ms), loan.borrowed ? "borrowed" : "not borrowed yet"});
        more += rank.loans.empty() ? 0 : rank.more_requests;
    }
    if (rows.size() == 1)
        return "";
    drop_empty_columns(rows);
    std::string text = base::format("loans:\n{}", format_table(rows));
    if (more > 0)
        text += base::format("and {} more requests, of which some may be loans\n", more);
    return text;
}

std::string format_job(const ListedJob& job) {
    std::vector<Row> rows{{"rank", "program", "pid", "node", "device", "state", "call", "waited", "does", "peer", "tag",
                           "communicator", "bytes", "waits for"}};
    for (const ListedRank& rank : job.ranks)
        add_rank(rows, rank);
    drop_empty_columns(rows);
    const std::string here =
        job.ranks.size() == job.size ? "" : base::format(", {} of them on this node", job.ranks.size());
    return base::format("job {}: {} rank{}{}, started by {}, watched over by process {}\n", job.name, job.size,
                        job.size == 1 ? "" : "s", here, job.started_by, job.pid) +
           format_table(rows) + table_of_loans(job);
}

// Many that are silent for one reason, such as those whose gpurun was killed, are one line.
std::string format_silent(std::span<const SilentJob> silent) {
    constexpr ptrdiff_t kMostNamed = 3;
    std::string text;
    for (auto job = silent.begin(); job != silent.end(); ++job) {
        const auto has_its_reason = [&](const SilentJob& each) { return each.why == job->why; };
        const auto others = std::count_if(silent.begin(), silent.end(), has_its_reason) - 1;
        if (others < kMostNamed)
            text += base::format("job {}: {}\n", job->name, job->why);
        else if (std::none_of(silent.begin(), job, has_its_reason))
            text += base::format("job {} and {} more: {}\n", job->name, others, job->why);
    }
    return text;
}

} // namespace

std::string format_jobs(std::span<const ListedJob> jobs, std::span<const SilentJob> silent) {
    std::string text;
    for (const ListedJob& job : jobs) {
        text += format_job(job);
        if (&job != &jobs.back() || !silent.empty())
            text += '\n';
    }
    text += format_silent(silent);
    return text.empty() ? "no jobs of this user run on this machine\n" : text;
}

} // namespace gpurun::launcher
