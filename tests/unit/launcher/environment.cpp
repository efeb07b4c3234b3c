// The environment of a rank.
#include "environment.hpp"
#include "support/unit.hpp"

#include <algorithm>

namespace gpurun::test::environment {

using namespace launcher;
using gpurun::base::Status;

namespace {

using Words = std::vector<std::string>;

const RankFacts kFacts{2, 4, "emulated:2/4", "", 6, true, 29511, 1};

// What the rank sees.
Words environment(std::vector<const char*> inherited, RankFacts facts = kFacts, std::vector<Setting> settings = {}) {
    inherited.push_back(nullptr);
    return environment_with(inherited.data(), must(rank_variables(inherited.data(), facts, settings)));
}

bool has(const Words& words, const std::string& word) { return std::count(words.begin(), words.end(), word) == 1; }

bool names(const Words& words, const std::string& name) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return word.starts_with(name + "="); });
}

} // namespace

TEST_SUITE_BEGIN("environment");

TEST_CASE("a rank is told who it is") {
    const Words words = environment({});
    for (const char* word : {"GPURUN_RANK=2", "GPURUN_SIZE=4", "GPURUN_LOCAL_RANK=2", "GPURUN_LOCAL_SIZE=4",
                             "GPURUN_DEVICE=emulated:2/4", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}) {
        CAPTURE(word);
        CHECK(has(words, word));
    }
    CHECK_FALSE(names(words, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("programs written for other launchers are told in their words, unless that is not wanted") {
    const char* const theirs[] = {"RANK=2",
                                  "WORLD_SIZE=4",
                                  "LOCAL_RANK=2",
                                  "LOCAL_WORLD_SIZE=4",
                                  "MASTER_ADDR=127.0.0.1",
                                  "MASTER_PORT=29511",
                                  "OMPI_COMM_WORLD_RANK=2",
                                  "OMPI_COMM_WORLD_SIZE=4",
                                  "OMPI_COMM_WORLD_LOCAL_RANK=2",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                                  "MPI_LOCALRANKID=2",
                                  "MPI_LOCALNRANKS=4",
                                  "MV2_COMM_WORLD_LOCAL_RANK=2"};
    RankFacts without = kFacts;
    without.compat = false;
    for (const char* word : theirs) {
        CAPTURE(word);
        CHECK(has(environment({"RANK=7"}), word));
        CHECK_FALSE(has(environment({}, without), word));
    }
    CHECK(has(environment({"RANK=7"}, without), "RANK=7"));
}

TEST_CASE("a meeting place that the user has set stays, but not that of a gpurun around this one") {
    const Words set = environment({"MASTER_PORT=1234", "MASTER_ADDR=host"});
    CHECK(has(set, "MASTER_PORT=1234"));
    CHECK(has(set, "MASTER_ADDR=host"));
    const Words nested = environment({"MASTER_PORT=1234", "GPURUN_CONTROL_FD=3"});
    CHECK(has(nested, "MASTER_PORT=29511"));
    RankFacts nowhere = kFacts;
    nowhere.port = 0;
    CHECK_FALSE(names(environment({}, nowhere), "MASTER_PORT"));
}

TEST_CASE("threads are as many as the rank's cores, unless the user has set another number") {
    CHECK(has(environment({}), "OMP_NUM_THREADS=6"));
    CHECK(has(environment({"OMP_NUM_THREADS=3"}), "OMP_NUM_THREADS=3"));
    CHECK(has(environment({}, kFacts, {{"OMP_NUM_THREADS", "9"}}), "OMP_NUM_THREADS=9"));
}

TEST_CASE("hardware queues are shared by the ranks of a GPU, unless the user has set another number") {
    RankFacts sixteen = kFacts;
    sixteen.ranks_on_device = 16;
    CHECK(has(environment({}), "CUDA_DEVICE_MAX_CONNECTIONS=32"));
    CHECK(has(environment({}, sixteen), "CUDA_DEVICE_MAX_CONNECTIONS=7"));
    CHECK(has(environment({"CUDA_DEVICE_MAX_CONNECTIONS=3"}, sixteen), "CUDA_DEVICE_MAX_CONNECTIONS=3"));
    CHECK(has(environment({}, sixteen, {{"CUDA_DEVICE_MAX_CONNECTIONS", "4"}}), "CUDA_DEVICE_MAX_CONNECTIONS=4"));
}

TEST_CASE("a variable's value for a rank is what is set for it, or else what it inherits") {
    const char* const inherited[] = {"A=1", "B=2", "C=", nullptr};
    const Variable set[] = {{"B", "3"}};
    CHECK(value_for_rank(inherited, set, "A") == "1");
    CHECK(value_for_rank(inherited, set, "B") == "3");
    CHECK(value_for_rank(inherited, set, "C") == "");
    CHECK(value_for_rank(inherited, set, "D") == std::nullopt);
}

TEST_CASE("the rest of the environment passes, also what has no value") {
    const Words words = environment({"HOME=/root", "GPURUN_LOG=info", "ODD", "EMPTY="});
    for (const char* word : {"HOME=/root", "GPURUN_LOG=info", "ODD", "EMPTY="})
        CHECK(has(words, word));
}

TEST_CASE("a gpurun inside a rank replaces what the outer one said") {
    const Words words = environment({"GPURUN_RANK=7"});
    CHECK(has(words, "GPURUN_RANK=2"));
    CHECK_FALSE(has(words, "GPURUN_RANK=7"));
}

TEST_CASE("an order of devices that the user chose stays") {
    const Words words = environment({"CUDA_DEVICE_ORDER=FASTEST_FIRST"});
    CHECK(has(words, "CUDA_DEVICE_ORDER=FASTEST_FIRST"));
    CHECK_FALSE(has(words, "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
}

TEST_CASE("the GPUs that a rank is to see replace those that gpurun saw") {
    RankFacts facts = kFacts;
    facts.visible = "GPU-b,GPU-a";
    const Words words = environment({"CUDA_VISIBLE_DEVICES=1"}, facts);
    CHECK(has(words, "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a"));
    CHECK_FALSE(has(words, "CUDA_VISIBLE_DEVICES=1"));
}

TEST_CASE("a setting is the user's word, its value gpurun's own where none is written") {
    const Words words =
        environment({"HOME=/root", "EDITOR=vi"}, kFacts,
                    {{"A", "1"}, {"A", "2"}, {"HOME", "/tmp"}, {"RANK", "x"}, {"EDITOR", {}}, {"E", ""}});
    for (const char* word : {"A=2", "HOME=/tmp", "RANK=x", "EDITOR=vi", "E="}) {
        CAPTURE(word);
        CHECK(has(words, word));
    }
    CHECK_FALSE(has(words, "A=1"));
}

TEST_CASE("a setting that is to take a value that is not there is an error that says what to write") {
    const char* const nothing[] = {nullptr};
    const Setting missing[] = {{"NOT_HERE", {}}};
    const auto variables = rank_variables(nothing, kFacts, missing);
    CHECK_STATUS(variables, Status::kArgument);
    CHECK(detail_of(variables).find("NOT_HERE=VALUE") != std::string::npos);
}

TEST_CASE("what is set later replaces what was set before, in its place") {
    std::vector<Variable> variables = {{"A", "1"}, {"B", "2"}};
    const Variable more[] = {{"B", "3"}, {"C", "4"}};
    set_variables(variables, more);
    REQUIRE(variables.size() == 3);
    CHECK(variables[1].value == "3");
    CHECK(variables[2].name == "C");
}

TEST_CASE("the provider of --fabric goes before the one that is inherited, and after that of --env") {
    const char* const inherited[] = {"GPURUN_FABRIC=net", nullptr};
    RankFacts facts = kFacts;
    const auto provider = [&](std::vector<Setting> settings) {
        return value_for_rank(inherited, must(rank_variables(inherited, facts, settings)), "GPURUN_FABRIC");
    };
    CHECK(provider({}) == "net");
    facts.fabric = "tcp";
    CHECK(provider({}) == "tcp");
    CHECK(provider({{"GPURUN_FABRIC", "efa"}}) == "efa");
}

TEST_CASE("a rank of several nodes knows its number in the job and on its node, and where rank 0 is") {
    RankFacts far = kFacts;
    far.rank = 5;
    far.size = 8;
    far.share = NodeShare{4, 3, 8, "10.0.0.1", "10.0.0.2"};
    const std::vector<Variable> set = must(rank_variables(std::vector<const char*>{nullptr}.data(), far, {}));
    const auto value = [&](const char* name) {
        return value_for_rank(std::vector<const char*>{nullptr}.data(), set, name).value_or("");
    };
    for (const char* name : {"GPURUN_RANK", "RANK", "OMPI_COMM_WORLD_RANK"})
        CHECK(value(name) == "5");
    for (const char* name : {"GPURUN_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"})
        CHECK(value(name) == "8");
    for (const char* name : {"GPURUN_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                             "MV2_COMM_WORLD_LOCAL_RANK"})
        CHECK(value(name) == "1");
    CHECK(value("GPURUN_NODE_ADDRESS") == "10.0.0.2");
    for (const char* name : {"GPURUN_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
        CHECK(value(name) == "3");
    CHECK(value("MASTER_ADDR") == "10.0.0.1");
    CHECK(value("GPURUN_FABRIC").empty());
}

TEST_SUITE_END();

} // namespace gpurun::test::environment
