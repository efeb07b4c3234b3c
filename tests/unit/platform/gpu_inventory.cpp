// Which GPUs CUDA_VISIBLE_DEVICES leaves.
#include "platform/gpu_inventory.hpp"
#include "support/unit.hpp"

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

const std::vector<Gpu> kGpus = {{"GPU-aa11", "0000:01:00.0", "A", ""},
                                {"GPU-aa22", "0000:02:00.0", "B", ""},
                                {"GPU-bb33", "0000:03:00.0", "C", ""}};

std::string names(const char* list) {
    std::string result;
    for (const Gpu& gpu : must(visible_gpus(kGpus, list)))
        result += gpu.name;
    return result;
}

} // namespace

TEST_SUITE_BEGIN("GPU inventory");

TEST_CASE("without CUDA_VISIBLE_DEVICES all GPUs are visible, with an empty one none") {
    CHECK(names(nullptr) == "ABC");
    CHECK(names("").empty());
}

TEST_CASE("ordinals and UUIDs, also shortened ones, choose GPUs in their order") {
    CHECK(names("2,0") == "CA");
    CHECK(names("GPU-aa22") == "B");
    CHECK(names("GPU-b, 1") == "CB");
}

TEST_CASE("-1 ends the list") {
    CHECK(names("1,-1,0") == "B");
    CHECK(names("-1").empty());
    CHECK(names("NoDevFiles").empty());
}

TEST_CASE("a GPU that is not there, is named twice or not clearly is an error that says which") {
    for (const char* list : {"3", "0,GPU-cc", "1,1", "GPU-aa", "MIG-1234", "gpu0", "99999999999999999999"}) {
        CAPTURE(list);
        CHECK_STATUS(visible_gpus(kGpus, list), Status::kSetting);
    }
    CHECK(detail_of(visible_gpus(kGpus, "0,7")).find("'7'") != std::string::npos);
}

TEST_CASE("a GPU in MIG mode is its instances, each of which can be named alone") {
    const std::vector<Gpu> gpus = {{"GPU-aa", "0000:01:00.0", "A", ""},
                                   {"MIG-b1", "0000:02:00.0", "B1", "GPU-bb"},
                                   {"MIG-b2", "0000:02:00.0", "B2", "GPU-bb"},
                                   {"GPU-cc", "0000:03:00.0", "C", ""}};
    const auto visible = [&](const char* list) {
        std::string result;
        for (const Gpu& gpu : must(visible_gpus(gpus, list)))
            result += gpu.name;
        return result;
    };
    CHECK(visible("1") == "B1B2");
    CHECK(visible("2,0") == "CA");
    CHECK(visible("GPU-b") == "B1B2");
    CHECK(visible("MIG-b2,GPU-aa") == "B2A");
    CHECK_STATUS(visible_gpus(gpus, "MIG-b"), Status::kSetting);
    CHECK_STATUS(visible_gpus(gpus, "1,MIG-b1"), Status::kSetting);
    CHECK_STATUS(visible_gpus(gpus, "3"), Status::kSetting);
}

TEST_CASE("a machine without GPUs says why there are none") {
    const GpuInventory inventory = find_gpus();
    CHECK(inventory.gpus.empty() == !inventory.absence.empty());
}

TEST_SUITE_END();
