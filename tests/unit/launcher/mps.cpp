// When ranks get an MPS daemon, and which GPUs it serves.
#include "mps.hpp"
#include "mps_limits.hpp"
#include "support/unit.hpp"

namespace gpurun::test::mps {

using namespace launcher;
using gpurun::base::Status;

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

// So many ranks on one GPU of this generation.
std::vector<Device> crowd(size_t ranks, int compute_major) {
    return std::vector<Device>(ranks, Device{"cuda:GPU-a", "0000:01:00.0", "GPU-a", 0, "", compute_major});
}

TEST_CASE("more ranks on a GPU than a daemon serves there are an error that says what to do") {
    for (const int hopper_or_unknown : {9, 0}) {
        CHECK(plan_mps(MpsChoice::kAuto, crowd(48, hopper_or_unknown)));
        CHECK_STATUS(plan_mps(MpsChoice::kAuto, crowd(49, hopper_or_unknown)), Status::kArgument);
    }
    CHECK(plan_mps(MpsChoice::kOn, crowd(60, 10)));
    const auto refused = plan_mps(MpsChoice::kOn, crowd(61, 10));
    CHECK_STATUS(refused, Status::kArgument);
    CHECK(detail_of(refused).find("61 ranks on GPU 0000:01:00.0, but MPS serves at most 60") != std::string::npos);
    CHECK(detail_of(refused).find("--mps=off") != std::string::npos);
    CHECK(plan_mps(MpsChoice::kOff, crowd(61, 10)));
}

TEST_CASE("each GPU has its own ranks only") {
    std::vector<Device> ranks = crowd(48, 9);
    for (size_t i = 0; i < 48; ++i)
        ranks.push_back(Device{"cuda:GPU-b", "0000:02:00.0", "GPU-b", 1, "", 9});
    CHECK(plan_mps(MpsChoice::kAuto, ranks));
}

TEST_CASE("the ranks of a GPU ask for no more hardware queues together than MPS has, and each for two at least") {
    for (size_t ranks = 1; ranks <= most_mps_clients(10); ++ranks) {
        CAPTURE(ranks);
        CHECK(queues_per_rank(ranks) >= 2);
        CHECK(queues_per_rank(ranks) <= kMostQueues);
        CHECK(queues_per_rank(ranks) * ranks <= kSharedQueues);
        CHECK(queues_per_rank(ranks + 1) <= queues_per_rank(ranks));
        CHECK(notice_of_queues(crowd(ranks, 9), std::vector<uint32_t>(ranks, queues_per_rank(ranks))) == "");
    }
    CHECK(queues_per_rank(0) == 32);
    CHECK(queues_per_rank(3) == 32);
    CHECK(queues_per_rank(4) == 30);
    CHECK(queues_per_rank(16) == 7);
    CHECK(queues_per_rank(1000) == 2); // without MPS each has its own
}

TEST_CASE("who has asked for more hardware queues than MPS has is told what to ask for") {
    const std::string notice = notice_of_queues(crowd(4, 9), {32, 32, 32, 32});
    CHECK(notice.find("128 hardware queues") != std::string::npos);
    CHECK(notice.find("30 at most") != std::string::npos);
    CHECK(notice_of_queues(crowd(4, 9), {32, 32, 32, 0}) == "");
}

TEST_CASE("asked for on emulated devices, it is an error that says what to do") {
    const auto plan = plan_mps(MpsChoice::kOn, ranks_on({"", ""}));
    CHECK_STATUS(plan, Status::kArgument);
    CHECK(detail_of(plan).find("--device=cuda") != std::string::npos);
}

TEST_SUITE_END();

} // namespace gpurun::test::mps
