// When ranks get an MPS daemon, and which GPUs it serves.
#include "mps.hpp"
#include "support/unit.hpp"

using namespace gpurun::launcher;
using gpurun::base::Status;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

using Words = std::vector<std::string>;

// A rank on each of these GPUs; "" is an emulated device.
std::vector<Device> ranks_on(const Words& uuids) {
    std::vector<Device> ranks;
    for (const std::string& uuid : uuids)
        ranks.push_back(uuid.empty() ? Device{"emulated:0/1", "", "", 0, ""}
                                     : Device{"cuda:" + uuid, "0000:01:00.0", uuid, 0, ""});
    return ranks;
}

Words gpus(MpsChoice choice, const Words& uuids) { return must(plan_mps(choice, ranks_on(uuids))).gpus; }

} // namespace

TEST_SUITE_BEGIN("mps");

TEST_CASE("by default a daemon serves the job's GPUs where two ranks share one") {
    CHECK(gpus(MpsChoice::kAuto, {"GPU-b", "GPU-a", "GPU-b"}) == Words{"GPU-b", "GPU-a"});
    CHECK(gpus(MpsChoice::kAuto, {"GPU-a", "GPU-a"}) == Words{"GPU-a"});
    CHECK(gpus(MpsChoice::kAuto, {"GPU-a", "GPU-b"}).empty());
    CHECK(gpus(MpsChoice::kAuto, {"GPU-a"}).empty());
    CHECK(gpus(MpsChoice::kAuto, {"", ""}).empty());
    CHECK_FALSE(must(plan_mps(MpsChoice::kAuto, ranks_on({"GPU-a", "GPU-a"}))).required);
}

TEST_CASE("it is there whenever it is asked for, and never where it is refused") {
    CHECK(gpus(MpsChoice::kOn, {"GPU-a", "GPU-b"}) == Words{"GPU-a", "GPU-b"});
    CHECK(must(plan_mps(MpsChoice::kOn, ranks_on({"GPU-a"}))).required);
    CHECK(gpus(MpsChoice::kOff, {"GPU-a", "GPU-a"}).empty());
    CHECK(gpus(MpsChoice::kOff, {""}).empty());
}

TEST_CASE("a daemon serves one MIG instance, and of several none, which is said") {
    const std::vector<Device> instances = {{"cuda:MIG-1", "0000:01:00.0", "MIG-1", 0, "GPU-a"},
                                           {"cuda:MIG-2", "0000:01:00.0", "MIG-2", 1, "GPU-a"}};
    const std::vector<Device> one = {instances[0], instances[0]};
    CHECK(must(plan_mps(MpsChoice::kAuto, one)).gpus == Words{"MIG-1"});
    const MpsPlan plan = must(plan_mps(MpsChoice::kAuto, {instances[0], instances[1], instances[1]}));
    CHECK(plan.gpus.empty());
    CHECK(plan.notice.find("one instance only") != std::string::npos);
    CHECK(must(plan_mps(MpsChoice::kAuto, instances)).notice.empty()); // they share nothing
    CHECK_STATUS(plan_mps(MpsChoice::kOn, instances), Status::kArgument);
}

TEST_CASE("asked for on emulated devices, it is an error that says what to do") {
    const auto plan = plan_mps(MpsChoice::kOn, ranks_on({"", ""}));
    CHECK_STATUS(plan, Status::kArgument);
    CHECK(detail_of(plan).find("--device=cuda") != std::string::npos);
}

TEST_SUITE_END();
