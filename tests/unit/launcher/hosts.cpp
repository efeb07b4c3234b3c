// Hosts as the command line and files name them, and how ranks fill them.
#include "hosts.hpp"
#include "base/format.hpp"
#include "slurm.hpp"
#include "support/unit.hpp"

#include <map>

namespace gpurun::test::hosts {

using namespace launcher;
using gpurun::base::Status;

namespace {

std::string text_of(const std::vector<Host>& hosts) {
    std::string text;
    for (const Host& host : hosts)
        text += host.slots ? gpurun::base::format("{}={} ", host.name, *host.slots) : host.name + " ";
    return text;
}

} // namespace

TEST_SUITE_BEGIN("hosts");

TEST_CASE("hosts are names with or without slots, and addresses") {
    CHECK(text_of(must(parse_hosts("a"))) == "a ");
    CHECK(text_of(must(parse_hosts("a,b:4,me@c.example:2"))) == "a b=4 me@c.example=2 ");
    CHECK(text_of(must(parse_hosts("10.0.0.1:3,[fd00::1],[::1]:2"))) == "10.0.0.1=3 fd00::1 ::1=2 ");
}

TEST_CASE("what is no host, or could be an option of the agent, is refused") {
    for (const char* text : {"", "a,", ",a", "-oProxyCommand=x", "a b", "a:", "a:0", "a:257", "a:x", "fd00::1", "[::1",
                             "[::1]2", "[]", "a;b", "$(x)", "a,a", "a:1,a:2"})
        CHECK_STATUS(parse_hosts(text), Status::kArgument);
    CHECK(detail_of(parse_hosts("a,a")).find("a:RANKS") != std::string::npos);
    CHECK(detail_of(parse_hosts("fd00::1")).find("[fd00::1]") != std::string::npos);
}

TEST_CASE("a file has one host a line, comments, and slots in both ways of writing") {
    CHECK(text_of(must(parse_hostfile("# all\na\n\n  b:2  # two\nc slots=3\r\n\td\n[::1]:4", "F"))) ==
          "a b=2 c=3 d ::1=4 ");
    CHECK(detail_of(parse_hostfile("a\nb max=2\n", "F")).find("F:2: 'max=2'") == 0);
    CHECK(detail_of(parse_hostfile("a\n\na", "F")).find("F:3: a is named twice") == 0);
    for (const char* text : {"", "# none\n", "a slots=", "a slots=0", "a:2 slots=3", "a slots=2 slots=2", "-x"})
        CHECK_STATUS(parse_hostfile(text, "F"), Status::kArgument);
}

TEST_CASE("ranks fill the hosts in their order") {
    using Filled = std::vector<uint32_t>;
    CHECK(must(fill_hosts({2, 2}, std::nullopt, false)) == Filled{2, 2});
    CHECK(must(fill_hosts({4, 4}, 6, false)) == Filled{4, 2});
    CHECK(must(fill_hosts({4, 4}, 3, false)) == Filled{3, 0});
    CHECK(must(fill_hosts({1, 2}, 8, true)) == Filled{3, 5});
    CHECK(must(fill_hosts({0, 2}, 3, true)) == Filled{0, 3});
    CHECK_STATUS(fill_hosts({2, 2}, 5, false), Status::kArgument);
    CHECK_STATUS(fill_hosts({0, 0}, 1, true), Status::kArgument);
    CHECK(must(fill_hosts({200, 100}, std::nullopt, false)) == Filled{200, 100});
    CHECK_STATUS(fill_hosts({200, 100}, 600, true), Status::kArgument); // 400 on the first
    CHECK_STATUS(fill_hosts(std::vector<uint32_t>(41, 256), std::nullopt, false), Status::kArgument);
}

TEST_CASE("the hosts of an allocation of Slurm are written with ranges") {
    using Names = std::vector<std::string>;
    CHECK(must(expand_slurm_hosts("a")) == Names{"a"});
    CHECK(must(expand_slurm_hosts("h[1-3,7],gpu-a")) == Names{"h1", "h2", "h3", "h7", "gpu-a"});
    CHECK(must(expand_slurm_hosts("n[08-10]x")) == Names{"n08x", "n09x", "n10x"});
    CHECK(must(expand_slurm_hosts("r[0-1]n[1-2]")) == Names{"r0n1", "r0n2", "r1n1", "r1n2"});
    CHECK(must(expand_slurm_hosts("h[3-1]")).empty());
    for (const char* text : {"h[1-", "h[a-b]", "h[]", "h[1-2", "h[1-4000000000]", "h[-1]"})
        CHECK_STATUS(expand_slurm_hosts(text), Status::kSetting);
}

TEST_CASE("an allocation of Slurm has hosts, and tasks where they were asked for") {
    using Environment = std::map<std::string, std::string>;
    const auto in = [](const Environment& environment, std::optional<uint32_t> wanted = std::nullopt) {
        return slurm_hosts(
            [&](const char* name) {
                const auto found = environment.find(name);
                return found == environment.end() ? nullptr : found->second.c_str();
            },
            wanted);
    };
    CHECK(must(in({})).empty());
    CHECK(must(in({{"SLURM_JOB_NODELIST", "a"}})).empty()); // left over
    Environment environment{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "h[1-3]"}, {"SLURM_TASKS_PER_NODE", "1(x3)"}};
    CHECK(text_of(must(in(environment))) == "h1 h2 h3 ");
    environment["SLURM_TASKS_PER_NODE"] = "4(x2),1";
    environment["SLURM_NTASKS"] = "9";
    CHECK(text_of(must(in(environment))) == "h1=4 h2=4 h3=1 ");
    CHECK(text_of(must(in(environment, 9))) == "h1=4 h2=4 h3=1 ");
    CHECK(text_of(must(in(environment, 10))) == "h1 h2 h3 "); // more than the tasks: as many as there are devices
    environment["SLURM_STEP_NUM_TASKS"] = "1";
    CHECK(must(in(environment)).size() == 3);
    environment["SLURM_STEP_NUM_TASKS"] = "2";
    CHECK(detail_of(in(environment)).find("leave srun out") != std::string::npos);
    for (const char* tasks : {"x", "1(x", "1(xy)", "1(x4000000000)"}) {
        CAPTURE(tasks);
        environment["SLURM_STEP_NUM_TASKS"] = "1";
        environment["SLURM_TASKS_PER_NODE"] = tasks;
        CHECK_STATUS(in(environment), Status::kSetting);
    }
    environment["SLURM_TASKS_PER_NODE"] = "1(x3)";
    environment["SLURM_JOB_NODELIST"] = "-oProxyCommand=x";
    CHECK_STATUS(in(environment), Status::kArgument);
}

TEST_SUITE_END();

} // namespace gpurun::test::hosts
