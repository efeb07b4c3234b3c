// What Open MPI and Slurm say in the environment of a process.
#include "platform/launched_rank.hpp"
#include "platform/meeting_place.hpp"
#include "support/unit.hpp"

#include <array>
#include <map>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

using namespace gpurun;
using base::Status;
using platform::LaunchedRank;
using test::detail_of;
using test::must;

namespace {

using Variables = std::map<std::string, std::string>;

base::Result<std::optional<LaunchedRank>> in(const Variables& variables) {
    return platform::launched_rank([&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

Variables with(Variables variables, const Variables& more) {
    for (const auto& [name, value] : more)
        variables[name] = value;
    return variables;
}

LaunchedRank rank_in(const Variables& variables) {
    const auto rank = must(in(variables));
    REQUIRE(rank.has_value());
    CHECK(platform::check_meeting_name(rank->job));
    return *rank;
}

const Variables kOpenMpi = {{"PMIX_NAMESPACE", "585302017"},
                            {"PMIX_RANK", "1"},
                            {"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_MCA_ess_base_jobid", "585302017"},
                            {"PMIX_SERVER_URI2", "585302016.0;tcp4://127.0.0.1:5"}};
const Variables kTask = {{"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "2"},         {"SLURM_STEP_NUM_TASKS", "3"},
                         {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_LAUNCHER_PORT", "9"}};
const Variables kPmix = with(kTask, {{"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"PMIX_RANK", "2"}});
const Variables kPmi2 = with(kTask, {{"PMI_FD", "99"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"PMI_JOBID", "7.0"}});

} // namespace

TEST_SUITE_BEGIN("launcher");

TEST_CASE("a rank of mpirun, and one of srun with PMIx or PMI-2, is known without a question") {
    CHECK(rank_in(kOpenMpi).rank == 1);
    CHECK(rank_in(kOpenMpi).size == 4);
    for (const Variables& each : {kPmix, kPmi2}) {
        const LaunchedRank rank = rank_in(each);
        CHECK(rank.rank == 2);
        CHECK(rank.size == 3);
        CHECK(rank.local_rank == 2);
        CHECK(rank.local_size == 3);
        CHECK_FALSE(rank.meet);
    }
}

TEST_CASE("all ranks have one name, and each job another") {
    const Variables other_rank = {{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}};
    const std::string name = rank_in(kOpenMpi).job;
    CHECK(rank_in(with(kOpenMpi, other_rank)).job == name);
    CHECK(rank_in(with(kOpenMpi, {{"PMIX_SERVER_URI2", "585302016.0;tcp4://127.0.0.1:6"}})).job != name);
    CHECK(rank_in(with(kOpenMpi, {{"PMIX_NAMESPACE", "2"}, {"OMPI_MCA_ess_base_jobid", "2"}})).job != name);
    const std::string long_name = "prterun-host@" + std::string(200, '/');
    const Variables longest = {{"PMIX_NAMESPACE", long_name}, {"OMPI_MCA_ess_base_jobid", long_name}};
    CHECK(rank_in(with(kOpenMpi, longest)).job != name);
    const std::string step = rank_in(kPmi2).job;
    CHECK(rank_in(with(kPmi2, {{"SLURM_STEP_ID", "1"}, {"PMI_JOBID", "7.1"}})).job != step);
    CHECK(rank_in(with(kPmi2, {{"SLURM_STEP_LAUNCHER_PORT", "10"}})).job != step); // requeued
}

TEST_CASE("ranks on several nodes are asked where they meet") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const platform::UniqueFd launcher(ends[0]);
    const platform::UniqueFd own(ends[1]);
    const std::string word = "10.0.0.1;2;" + std::string(64, 'f');
    const std::string answers = "cmd=response_to_init\ncmd=my_kvsname kvsname=7\n"
                                "cmd=get_result value=(vector,(0,2,2))\ncmd=barrier_out\ncmd=get_result value=" +
                                word + "\ncmd=finalize_ack\n";
    REQUIRE(::write(launcher.get(), answers.data(), answers.size()) == static_cast<ssize_t>(answers.size()));
    const LaunchedRank rank = rank_in({{"PMI_FD", std::to_string(own.get())}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
    CHECK(rank.rank == 3);
    CHECK(rank.size == 4);
    CHECK(rank.local_rank == 1);
    CHECK(rank.local_size == 2);
    REQUIRE(rank.meet);
    const platform::MeetingOfRank meeting = must(rank.meet(5));
    CHECK(meeting.word == word);
    CHECK_FALSE(meeting.listener); // which rank 0 has
}

TEST_CASE("one process alone, a task of plain srun, and a process that nobody has launched join nothing") {
    const Variables alone = {{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}};
    CHECK_FALSE(
        must(in(with(with(kOpenMpi, alone), {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}))));
    CHECK_FALSE(must(in(kTask)));
    CHECK_FALSE(must(in({})));
    CHECK_FALSE(must(in({{"PMI_FD", "99"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})));
    CHECK_FALSE(must(in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})));
    CHECK_FALSE(must(in({{"PMI_FD", "x"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})));
}

TEST_CASE("variables of a step in which mpiexec was started are not taken for the rank's") {
    const Variables inner = {{"PMI_FD", "99"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}; // of a descriptor that is closed
    CHECK_STATUS(in(with(kTask, inner)), Status::kLauncher);
    CHECK(detail_of(in(inner)).find("PMI_FD") != std::string::npos);
    CHECK(rank_in(with(kOpenMpi, inner)).size == 4); // nor the other way round
}
