// Which device each rank gets.
#include "mapping.hpp"
#include "support/unit.hpp"

#include <initializer_list>
#include <numeric>

namespace gpurun::test::mapping {

using namespace launcher;
using gpurun::base::Status;
using gpurun::platform::Machine;

namespace {

using Indices = std::vector<size_t>;

// A machine with as many NUMA nodes as these numbers tell, each core alone, and a GPU near each of the nodes listed.
struct Subject {
    Machine machine;
    std::vector<Device> devices;
};
Subject gpus_at(std::initializer_list<int> nodes) {
    Subject subject;
    for (int node = 0; node < 4; ++node)
        subject.machine.cores.push_back({{node}, node});
    for (const int node : nodes) {
        const std::string bus_id = "gpu" + std::to_string(subject.devices.size());
        subject.devices.push_back({"", bus_id, "GPU-" + bus_id, subject.devices.size(), ""});
        if (node >= 0)
            subject.machine.near[bus_id] = {static_cast<size_t>(node)};
    }
    return subject;
}

PlacementOptions with(MapBy map_by, std::optional<uint32_t> each = {}, bool oversubscribe = false) {
    PlacementOptions options;
    options.map_by = map_by;
    options.ranks_per_gpu = each;
    options.oversubscribe = oversubscribe;
    return options;
}

PlacementOptions by_list(const char* list) {
    PlacementOptions options = with(MapBy::kList);
    options.list = list;
    return options;
}

Indices mapped(const PlacementOptions& options, std::optional<size_t> ranks, const Subject& subject) {
    return must(map_ranks(options, ranks, subject.devices, subject.machine)).devices;
}

std::string refusal(const PlacementOptions& options, std::optional<size_t> ranks, const Subject& subject) {
    const auto mapping = map_ranks(options, ranks, subject.devices, subject.machine);
    CHECK_STATUS(mapping, Status::kArgument);
    return detail_of(mapping);
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

const Subject kFour = gpus_at({0, 0, 1, 1});

} // namespace

TEST_SUITE_BEGIN("mapping");

TEST_CASE("one rank for each GPU, in their order, is the default") {
    CHECK(mapped(with(MapBy::kGpu), {}, kFour) == Indices{0, 1, 2, 3});
    CHECK(mapped(with(MapBy::kGpu), 2, kFour) == Indices{0, 1});
}

TEST_CASE("more ranks than GPUs is an error that names both numbers and the remedy") {
    const std::string detail = refusal(with(MapBy::kGpu), 5, kFour);
    CHECK(says(detail, "5 ranks"));
    CHECK(says(detail, "4 GPUs"));
    CHECK(says(detail, "--oversubscribe"));
    CHECK(says(refusal(with(MapBy::kGpu, 2), 9, kFour), "4 GPUs with 2 each"));
}

TEST_CASE("ranks share GPUs in turn, if that is asked for") {
    CHECK(mapped(with(MapBy::kGpu, {}, true), 6, kFour) == Indices{0, 1, 2, 3, 0, 1});
    CHECK(mapped(with(MapBy::kGpu, 2), {}, kFour) == Indices{0, 1, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("with a number of ranks for each GPU, fewer ranks take fewer GPUs") {
    CHECK(mapped(with(MapBy::kGpu, 2), 4, kFour) == Indices{0, 1, 0, 1});
    CHECK(mapped(with(MapBy::kGpu, 2), 3, kFour) == Indices{0, 1, 0});
    CHECK(mapped(with(MapBy::kGpu, 2, true), 9, kFour) == Indices{0, 1, 2, 3, 0, 1, 2, 3, 0});
}

TEST_CASE("by NUMA node, few ranks are spread over the nodes") {
    CHECK(mapped(with(MapBy::kNuma), {}, kFour) == Indices{0, 2, 1, 3});
    CHECK(mapped(with(MapBy::kNuma), 2, kFour) == Indices{0, 2});
    CHECK(mapped(with(MapBy::kNuma), {}, gpus_at({3, 1, 0, 2})) == Indices{0, 1, 2, 3});
    CHECK(mapped(with(MapBy::kNuma), {}, gpus_at({0, 0, 0, 1})) == Indices{0, 3, 1, 2});
    CHECK(mapped(with(MapBy::kNuma), 2, gpus_at({0, 0, -1})) == Indices{0, 2}); // what is unknown is elsewhere
}

TEST_CASE("a list says which GPU each rank gets, and a GPU in it twice is shared") {
    CHECK(mapped(by_list("3,0,0"), {}, kFour) == Indices{3, 0, 0});
    CHECK(mapped(by_list("3,0,0"), 2, kFour) == Indices{3, 0});
    CHECK(says(refusal(by_list("3,0"), 3, kFour), "--map-by list: names the GPUs of 2"));
    PlacementOptions again = by_list("3,0");
    again.oversubscribe = true;
    CHECK(mapped(again, 3, kFour) == Indices{3, 0, 3});
}

TEST_CASE("only the chosen GPUs are used, each once") {
    PlacementOptions options = with(MapBy::kGpu);
    options.gpus = "3,1";
    CHECK(mapped(options, {}, kFour) == Indices{3, 1});
    CHECK(says(refusal(options, 3, kFour), "2 GPUs in --gpus"));
    options.gpus = "1,1";
    CHECK(says(refusal(options, {}, kFour), "twice"));
    options = by_list("0,1");
    options.gpus = "1-2";
    CHECK(says(refusal(options, {}, kFour), "--gpus leaves out"));
}

TEST_CASE("--map names the GPU of each rank") {
    PlacementOptions options;
    options.map = must(parse_map("2:0,GPU-gpu0:1,2:2"));
    CHECK(mapped(options, must(ranks_asked_for({Program()}, options)), kFour) == Indices{2, 0, 2});
}

TEST_CASE("the number of ranks is that of all programs together, and --map's") {
    Program three;
    three.ranks = 3;
    CHECK(must(ranks_asked_for({three, three}, {})) == size_t{6});
    CHECK(must(ranks_asked_for({Program()}, {})) == std::nullopt);
    PlacementOptions two;
    two.map = must(parse_map("0:0,1:1"));
    CHECK(must(ranks_asked_for({Program()}, two)) == size_t{2});
    CHECK(says(detail_of(ranks_asked_for({three}, two)), "--map is for 2 ranks, but -n asks for 3"));
    three.ranks = 200;
    CHECK(says(detail_of(ranks_asked_for({three, three}, {})), "400 ranks, but a node has at most 256"));
    CHECK(says(refusal(with(MapBy::kGpu, 256), {}, kFour), "1024 ranks, but a node has at most 256"));
}

TEST_SUITE_END();

} // namespace gpurun::test::mapping
