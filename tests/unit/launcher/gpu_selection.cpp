// Devices by name.
#include "gpu_selection.hpp"
#include "support/unit.hpp"

namespace gpurun::test::gpu_selection {

using namespace launcher;
using gpurun::base::Status;

namespace {

using Indices = std::vector<size_t>;

const std::vector<Device> kGpus = {
    {"", "0000:1b:00.0", "GPU-aa110000", 0, ""},   {"", "0000:43:00.0", "GPU-aa220000", 1, ""},
    {"", "0001:1b:00.0", "GPU-bb330000", 2, ""},   {"", "0000:c1:00.0", "MIG-11", 3, "GPU-cc44"},
    {"", "0000:c1:00.0", "MIG-22", 4, "GPU-cc44"},
};

Indices select(const char* list) { return must(select_devices("--gpus", list, kGpus)); }

} // namespace

TEST_SUITE_BEGIN("GPU selection");

TEST_CASE("numbers, ranges of them, UUIDs and PCI addresses name GPUs, in the order of the list") {
    CHECK(select("2,0") == Indices{2, 0});
    CHECK(select("1-3,0") == Indices{1, 2, 3, 0});
    CHECK(select("GPU-bb330000,GPU-aa22") == Indices{2, 1});
    CHECK(select("gpu-BB") == Indices{2});
    CHECK(select("0000:43:00.0,1b:00.0") == Indices{1, 0});
    CHECK(select("00000001:1B:00.0") == Indices{2});
    CHECK(select("0,0") == Indices{0, 0});
}

TEST_CASE("a MIG instance is named by its own UUID, or with all others of its GPU by that one's names") {
    CHECK(select("MIG-22") == Indices{4});
    CHECK(select("GPU-cc44") == Indices{3, 4});
    CHECK(select("c1:00.0") == Indices{3, 4});
    CHECK(select("3") == Indices{3});
}

TEST_CASE("what names no GPU, or more than one, is an error that says so") {
    const auto detail = [](const char* list) {
        const auto selected = select_devices("--gpus", list, kGpus);
        CHECK_STATUS(selected, Status::kArgument);
        return detail_of(selected);
    };
    for (const char* list :
         {"", ",", "0,", "-1", "3-1", "x", "gpu", "0x1", "1.0", " 0", "GPU-", "MIG-", "0;1", "cuda:0"}) {
        CAPTURE(list);
        CHECK(detail(list).find("names no GPU") != std::string::npos);
    }
    for (const char* list : {"5", "0-7", "GPU-dd", "0000:44:00.0", "MIG-33", "9999"}) {
        CAPTURE(list);
        CHECK(detail(list).find("there is no GPU") != std::string::npos);
    }
    CHECK(detail("0-7").find("'5'") != std::string::npos);
    CHECK(detail("GPU-aa").find("matches 2 GPUs") != std::string::npos);
    CHECK(select_devices("--gpus", "MIG-", {kGpus[3], kGpus[4]}).error().detail.find("names no GPU") !=
          std::string::npos);
}

TEST_CASE("the UUIDs of MIG instances must be clear too") {
    const std::vector<Device> instances = {{"", "0000:c1:00.0", "MIG-ab1", 0, "GPU-c"},
                                           {"", "0000:c1:00.0", "MIG-ab2", 1, "GPU-c"}};
    CHECK(detail_of(select_devices("--gpus", "MIG-ab", instances)).find("matches 2 MIG instances") !=
          std::string::npos);
}

TEST_SUITE_END();

} // namespace gpurun::test::gpu_selection
