// Which device each rank gets.
#include "devices.hpp"
#include "support/unit.hpp"

using namespace gpurun::launcher;
using gpurun::base::Status;
using gpurun::platform::Gpu;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

const std::vector<Gpu> kTwoGpus = {{"GPU-a", "0000:01:00.0", "A"}, {"GPU-b", "0000:02:00.0", "B"}};

Options options(const char* device, std::optional<uint32_t> ranks, bool oversubscribe = false) {
    Options result;
    if (device != nullptr)
        result.device = must(parse_device(device));
    result.ranks = ranks;
    result.oversubscribe = oversubscribe;
    return result;
}

std::string settings(const DevicePlan& plan) {
    std::string all;
    for (const RankDevice& device : plan.ranks)
        all += device.setting + " ";
    return all;
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("devices");

TEST_CASE("one rank for each GPU, in their order, is the default") {
    const DevicePlan plan = must(plan_devices(options(nullptr, {}), kTwoGpus, ""));
    CHECK(settings(plan) == "cuda:GPU-a cuda:GPU-b ");
    CHECK(plan.ranks[1].bus_id == "0000:02:00.0");
    CHECK(plan.ranks[1].uuid == "GPU-b");
    CHECK(plan.notice.empty());
}

TEST_CASE("ranks share GPUs in turn, if that is asked for") {
    CHECK(settings(must(plan_devices(options("cuda", 3, true), kTwoGpus, ""))) == "cuda:GPU-a cuda:GPU-b cuda:GPU-a ");
}

TEST_CASE("more ranks than GPUs is an error that names both numbers and the remedy") {
    const auto plan = plan_devices(options(nullptr, 5), kTwoGpus, "");
    CHECK_STATUS(plan, Status::kArgument);
    const std::string detail = detail_of(plan);
    CHECK(says(detail, "5 ranks"));
    CHECK(says(detail, "2 GPUs"));
    CHECK(says(detail, "--oversubscribe"));
}

TEST_CASE("without GPUs each rank gets an emulated device, which is said") {
    const DevicePlan plan = must(plan_devices(options(nullptr, 2), {}, "no driver"));
    CHECK(settings(plan) == "emulated:0/2 emulated:1/2 ");
    CHECK(says(plan.notice, "2 devices are emulated"));
    CHECK(says(plan.notice, "no driver"));
    CHECK(settings(must(plan_devices(options(nullptr, {}), {}, ""))) == "emulated:0/1 ");
}

TEST_CASE("emulated devices that were asked for are no news, also where there are GPUs") {
    const DevicePlan plan = must(plan_devices(options("emulated", 2), kTwoGpus, ""));
    CHECK(settings(plan) == "emulated:0/2 emulated:1/2 ");
    CHECK(plan.notice.empty());
}

TEST_CASE("a number of emulated devices is the default number of ranks, and can be shared only if asked") {
    CHECK(must(plan_devices(options("emulated:3", {}), {}, "")).ranks.size() == 3);
    CHECK(settings(must(plan_devices(options("emulated:4", 2), {}, ""))) == "emulated:0/4 emulated:1/4 ");
    CHECK_STATUS(plan_devices(options("emulated:2", 4), {}, ""), Status::kArgument);
    CHECK(settings(must(plan_devices(options("emulated:2", 4, true), {}, ""))) ==
          "emulated:0/2 emulated:1/2 emulated:0/2 emulated:1/2 ");
}

TEST_CASE("GPUs that were asked for and are not there are an error that says why") {
    const auto plan = plan_devices(options("cuda", 1), {}, "the driver is missing");
    CHECK_STATUS(plan, Status::kArgument);
    CHECK(says(detail_of(plan), "the driver is missing"));
}

TEST_SUITE_END();
