// The environment of a rank.
#include "environment.hpp"
#include "support/unit.hpp"

#include <algorithm>

using namespace gpurun::launcher;

namespace {

using Words = std::vector<std::string>;

Words environment(std::vector<const char*> inherited, std::vector<Variable> more = {}) {
    inherited.push_back(nullptr);
    return rank_environment(inherited.data(), {2, 4, 17, "emulated:2/4", !more.empty(), "0123"}, more);
}

bool has(const Words& words, const std::string& word) { return std::count(words.begin(), words.end(), word) == 1; }

size_t own_variables(const Words& words) {
    return static_cast<size_t>(
        std::count_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("GPURUN_"); }));
}

} // namespace

TEST_SUITE_BEGIN("environment");

TEST_CASE("a rank is told who it is") {
    const Words words = environment({});
    for (const char* word :
         {"GPURUN_RANK=2", "GPURUN_SIZE=4", "GPURUN_LOCAL_RANK=2", "GPURUN_LOCAL_SIZE=4", "GPURUN_CONTROL_FD=17",
          "GPURUN_DEVICE=emulated:2/4", "GPURUN_MPS=0", "GPURUN_JOB=0123", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}) {
        CAPTURE(word);
        CHECK(has(words, word));
    }
    CHECK(own_variables(words) == 8);
}

TEST_CASE("the rest of the environment passes, also what has no value") {
    const Words words = environment({"HOME=/root", "GPURUN_LOG=info", "ODD", "EMPTY="});
    for (const char* word : {"HOME=/root", "GPURUN_LOG=info", "ODD", "EMPTY="})
        CHECK(has(words, word));
}

TEST_CASE("a gpurun inside a rank replaces what the outer one said") {
    const Words words = environment({"GPURUN_RANK=7", "GPURUN_CONTROL_FD=3"});
    CHECK(has(words, "GPURUN_RANK=2"));
    CHECK_FALSE(has(words, "GPURUN_RANK=7"));
    CHECK(own_variables(words) == 8);
}

TEST_CASE("an order of devices that the user chose stays") {
    const Words words = environment({"CUDA_DEVICE_ORDER=FASTEST_FIRST"});
    CHECK(has(words, "CUDA_DEVICE_ORDER=FASTEST_FIRST"));
    CHECK_FALSE(has(words, "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
}

TEST_CASE("a rank with MPS is told so, and where, whatever was said before") {
    const Words words = environment({"CUDA_MPS_PIPE_DIRECTORY=/old", "GPURUN_MPS=0", "CUDA_VISIBLE_DEVICES=1"},
                                    {{"CUDA_MPS_PIPE_DIRECTORY", "/new"}, {"CUDA_VISIBLE_DEVICES", "GPU-b"}});
    for (const char* word : {"GPURUN_MPS=1", "CUDA_MPS_PIPE_DIRECTORY=/new", "CUDA_VISIBLE_DEVICES=GPU-b"})
        CHECK(has(words, word));
    for (const char* word : {"GPURUN_MPS=0", "CUDA_MPS_PIPE_DIRECTORY=/old", "CUDA_VISIBLE_DEVICES=1"})
        CHECK_FALSE(has(words, word));
}

TEST_SUITE_END();
