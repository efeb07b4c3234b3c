#include "slurm.hpp"

#include "base/format.hpp"
#include "option_values.hpp"
#include "platform/job_segment.hpp"

#include <charconv>
#include <numeric>

namespace gpurun::launcher {

namespace {

constexpr const char* kNodeList = "SLURM_JOB_NODELIST";
constexpr const char* kTasksPerNode = "SLURM_TASKS_PER_NODE";
constexpr size_t kMostHosts = platform::kMaxJobRanks; // of which each has a rank

base::Result<uint32_t> number_in(std::string_view text, std::string_view what) {
    uint32_t number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || failed != std::errc() || end != text.data() + text.size())
        return base::error(base::Status::kSetting, "{}: '{}' is not a number", what, text);
    return number;
}

// Where the element that begins at `begin` ends: at a comma outside of brackets.
size_t end_of_element(std::string_view text, size_t begin) {
    bool inside = false;
    for (size_t i = begin; i < text.size(); ++i) {
        inside = text[i] == '[' || (inside && text[i] != ']');
        if (text[i] == ',' && !inside)
            return i;
    }
    return text.size();
}

base::Result<void> add_host(std::vector<std::string>& hosts, std::string host) {
    if (hosts.size() == kMostHosts)
        return base::error(base::Status::kSetting, "{} names more than {} hosts: write those of the job with --hosts",
                           kNodeList, kMostHosts);
    hosts.push_back(std::move(host));
    return {};
}

base::Result<void> expand(std::vector<std::string>& hosts, const std::string& before, std::string_view rest);

// One range, "08-10" or "7", before what follows the brackets. Numbers keep their zeros.
base::Result<void> expand_range(std::vector<std::string>& hosts, const std::string& before, std::string_view range,
                                std::string_view rest) {
    const size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    GPURUN_ASSIGN(const uint32_t first, number_in(low, kNodeList));
    GPURUN_ASSIGN(const uint32_t last, number_in(high, kNodeList));
    for (uint64_t number = first; number <= last; ++number) {
        const std::string digits = std::to_string(number);
        const size_t zeros = low.size() > digits.size() ? low.size() - digits.size() : 0;
        GPURUN_TRY(expand(hosts, before + std::string(zeros, '0') + digits, rest));
    }
    return {};
}

// Adds `before` followed by each name that `rest` stands for; `rest` may have several brackets: "rack[0-1]n[1-4]".
base::Result<void> expand(std::vector<std::string>& hosts, const std::string& before, std::string_view rest) {
    const size_t open = rest.find('[');
    if (open == std::string_view::npos)
        return add_host(hosts, before + std::string(rest));
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos)
        return base::error(base::Status::kSetting, "{}: a ']' is missing in '{}'", kNodeList, rest);
    const std::string start = before + std::string(rest.substr(0, open));
    std::string_view ranges = rest.substr(open + 1, close - open - 1);
    while (true) {
        const size_t comma = std::min(ranges.find(','), ranges.size());
        GPURUN_TRY(expand_range(hosts, start, ranges.substr(0, comma), rest.substr(close + 1)));
        if (comma == ranges.size())
            return {};
        ranges.remove_prefix(comma + 1);
    }
}

// "2(x3),1": the tasks of each host.
base::Result<std::vector<uint32_t>> expand_tasks(std::string_view text) {
    std::vector<uint32_t> tasks;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        std::string_view element = text.substr(begin, end - begin);
        begin = end + 1;
        uint32_t times = 1;
        if (const size_t open = element.find("(x"); open != std::string_view::npos && element.ends_with(')')) {
            GPURUN_ASSIGN(times, number_in(element.substr(open + 2, element.size() - open - 3), kTasksPerNode));
            element = element.substr(0, open);
        }
        GPURUN_ASSIGN(const uint32_t count, number_in(element, kTasksPerNode));
        if (times > kMostHosts - std::min(kMostHosts, tasks.size()))
            return base::error(base::Status::kSetting, "{} is of more than {} hosts", kTasksPerNode, kMostHosts);
        tasks.insert(tasks.end(), times, count);
    }
    return tasks;
}

} // namespace

base::Result<std::vector<std::string>> expand_slurm_hosts(const std::string& text) {
    std::vector<std::string> hosts;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = end_of_element(text, begin);
        GPURUN_TRY(expand(hosts, "", std::string_view(text).substr(begin, end - begin)));
        begin = end + 1;
    }
    return hosts;
}

base::Result<std::vector<Host>> slurm_hosts(const Lookup& lookup, std::optional<uint32_t> wanted) {
    const char* const list = lookup(kNodeList);
    if (lookup("SLURM_JOB_ID") == nullptr || list == nullptr)
        return std::vector<Host>();
    if (const char* const tasks = lookup("SLURM_STEP_NUM_TASKS"); tasks != nullptr && std::string_view(tasks) != "1")
        return base::error(
            base::Status::kSetting,
            "srun has started {} copies of gpurun: leave srun out, since gpurun starts ranks on all nodes "
            "of the allocation; or write --hosts localhost, for a job of its own in each",
            tasks);
    GPURUN_ASSIGN(const std::vector<std::string> names, expand_slurm_hosts(list));
    std::vector<uint32_t> tasks(names.size());
    const char* const per_node = lookup(kTasksPerNode); // always there: 1 each unless tasks were asked for
    if (per_node != nullptr && lookup("SLURM_NTASKS") != nullptr) {
        GPURUN_ASSIGN(tasks, expand_tasks(per_node));
        if (std::accumulate(tasks.begin(), tasks.end(), uint64_t{0}) < wanted.value_or(0))
            tasks.assign(tasks.size(), 0);
        tasks.resize(names.size());
    }
    std::vector<Host> hosts;
    for (size_t i = 0; i < names.size(); ++i) {
        GPURUN_ASSIGN(std::vector<Host> host, parse_hosts(names[i])); // which knows what a name is
        if (tasks[i] > 0)
            host[0].slots = tasks[i];
        hosts.push_back(std::move(host[0]));
    }
    return hosts;
}

// In the middle of an allocation whose resources the caller of srun has: all of the host's, and none of them bound.
std::vector<std::string> slurm_agent() {
    return {"srun",    "--quiet",   "--overlap",  "--mpi=none",          "--cpu-bind=none",
            "--mem=0", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--nodelist"};
}

} // namespace gpurun::launcher
