// Binding on recorded machines with GPUs; skipped where the records are not there.
#include "invariants.hpp"
#include "platform/topology.hpp"

#include <filesystem>

using namespace gpurun::launcher;
using gpurun::platform::Machine;
using gpurun::platform::read_machine;
using gpurun::test::check_binding;
using gpurun::test::is_near;
using gpurun::test::must;

namespace {

struct Recorded {
    const char* file;
    std::vector<const char*> gpus; // in CUDA's order by bus id
    std::vector<int> nodes;        // nearest NUMA node of each
};

const Recorded kRecorded[] = {
    {"4xH100-8numa.xml", {"0000:4e:00.0", "0000:5f:00.0", "0000:cb:00.0", "0000:db:00.0"}, {3, 1, 7, 5}},
    {"4xV100-power9.xml", {"0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0"}, {0, 0, 8, 8}},
    {"8xH100-aws-p5.xml",
     {"0000:53:00.0", "0000:64:00.0", "0000:75:00.0", "0000:86:00.0", "0000:97:00.0", "0000:a8:00.0", "0000:b9:00.0",
      "0000:ca:00.0"},
     {0, 0, 0, 0, 1, 1, 1, 1}},
    {"8xT4-g4dn.xml",
     {"0000:18:00.0", "0000:19:00.0", "0000:35:00.0", "0000:36:00.0", "0000:e7:00.0", "0000:e8:00.0", "0000:f4:00.0",
      "0000:f5:00.0"},
     {0, 0, 0, 0, 1, 1, 1, 1}},
};

std::vector<Device> ranks_on(const Recorded& recorded, size_t ranks) {
    std::vector<Device> devices;
    for (size_t rank = 0; rank < ranks; ++rank)
        devices.push_back({"cuda:GPU", recorded.gpus[rank % recorded.gpus.size()]});
    return devices;
}

} // namespace

TEST_SUITE_BEGIN("recorded machines");

TEST_CASE("ranks are bound near their GPUs on recorded machines") {
    for (const Recorded& recorded : kRecorded) {
        const std::string path = std::string(TOPOLOGIES "/") + recorded.file;
        CAPTURE(path);
        if (!std::filesystem::exists(path)) {
            MESSAGE("skipped: there is no ", path);
            continue;
        }
        const Machine machine = must(read_machine(path));
        for (const size_t a_gpu : {1, 2, 3}) {
            const auto devices = ranks_on(recorded, a_gpu * recorded.gpus.size());
            const auto bindings = bind_ranks(machine, devices, BindTo::kCore, {});
            check_binding(machine, devices, bindings);
            for (size_t rank = 0; rank < devices.size(); ++rank) {
                CHECK(is_near(machine, devices[rank], bindings[rank]));
                CHECK(bindings[rank].node == recorded.nodes[rank % recorded.nodes.size()]);
            }
        }
    }
}

TEST_CASE("ranks without a GPU fill recorded machines evenly") {
    for (const Recorded& recorded : kRecorded) {
        const std::string path = std::string(TOPOLOGIES "/") + recorded.file;
        if (!std::filesystem::exists(path))
            continue;
        const Machine machine = must(read_machine(path));
        for (const size_t ranks : {size_t{1}, size_t{3}, machine.cores.size(), machine.cores.size() + 1, size_t{256}}) {
            const std::vector<Device> devices(ranks);
            check_binding(machine, devices, bind_ranks(machine, devices, BindTo::kCore, {}));
        }
    }
}

TEST_SUITE_END();
