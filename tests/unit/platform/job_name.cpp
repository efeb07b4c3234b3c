// Jobs and their processes, by name.
#include "platform/job_name.hpp"
#include "platform/process.hpp"
#include "platform/process_tree.hpp"
#include "support/unit.hpp"

#include <algorithm>

using namespace gpurun::platform;
using gpurun::test::must;

namespace {

ChildProcess sleeper_in(const std::vector<std::string>& environment) {
    SpawnRequest request;
    request.path = "/bin/sleep";
    request.arguments = {"sleep", "100"};
    request.environment = environment;
    ::sigemptyset(&request.signal_mask);
    ChildProcess child = must(ChildProcess::start(request));
    REQUIRE(child.wait_for_exec().error_number == 0);
    return child;
}

ChildProcess sleeper(const std::string& variable) { return sleeper_in({"ONE=1", variable, "GPURUN_JOBS=x"}); }

} // namespace

TEST_SUITE_BEGIN("job name");

TEST_CASE("every job has another name") {
    const std::string name = new_job_name();
    CHECK(name.size() == 16);
    CHECK(name.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(new_job_name() != name);
}

TEST_CASE("a job in a rank of another carries both names") {
    CHECK(nested_job_name(nullptr, "b") == "b");
    CHECK(nested_job_name("", "b") == "b");
    CHECK(nested_job_name("a", "b") == "a.b");
}

TEST_CASE("processes are found by the name of their job, or of one around it, and by no other") {
    const std::string name = new_job_name();
    const ChildProcess alone = sleeper("GPURUN_JOB=" + name);
    const ChildProcess nested = sleeper("GPURUN_JOB=" + name + ".inner");
    const ChildProcess inner = sleeper("GPURUN_JOB=outer." + name);
    const ChildProcess longer = sleeper("GPURUN_JOB=" + name + "0");
    const ChildProcess other = sleeper("GPURUN_JOBX=" + name);
    std::vector<int> expected = {alone.pid(), nested.pid(), inner.pid()};
    std::vector<int> found = processes_of_job(name).pids;
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
}

TEST_CASE("an ended process belongs to no job any more, and is a child until it is reaped") {
    const std::string name = new_job_name();
    const ChildProcess child = sleeper("GPURUN_JOB=" + name);
    const auto is_child = [&] {
        const std::vector<int> children = children_of_this();
        return std::count(children.begin(), children.end(), child.pid()) == 1;
    };
    CHECK(is_child());
    child.signal(SIGKILL);
    REQUIRE(wait_for_ends({child.pid()}, 10'000));
    const ProcessesOfJob found = processes_of_job(name);
    CHECK(found.pids.empty());
    CHECK(found.uncertain); // it may have started another just before
    CHECK(is_child());
}

TEST_CASE("a process that does not say whose it is makes the search uncertain") {
    const ChildProcess silent = sleeper_in({});
    CHECK(processes_of_job(new_job_name()).uncertain);
}

TEST_SUITE_END();
