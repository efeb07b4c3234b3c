// The whole plan of a job, on machines of all kinds and with every option: what must always hold.
#include "placement.hpp"
#include "gpu_selection.hpp"
#include "invariants.hpp"
#include "machines.hpp"

#include <functional>

namespace gpurun::test::placement {

using namespace launcher;
using gpurun::base::Status;
using gpurun::platform::Machine;

namespace {

std::optional<std::string> variable(const RankPlan& rank, const std::string& name) {
    for (const Variable& variable : rank.variables)
        if (variable.name == name)
            return variable.value;
    return std::nullopt;
}

std::vector<Device> devices_of(const Placement& placement) {
    std::vector<Device> devices;
    for (const RankPlan& rank : placement.ranks)
        devices.push_back(rank.device);
    return devices;
}

std::vector<Binding> bindings_of(const Placement& placement) {
    std::vector<Binding> bindings;
    for (const RankPlan& rank : placement.ranks)
        bindings.push_back(rank.binding);
    return bindings;
}

using Cores = std::vector<size_t>;

Cores near_of(const Machine& machine, const Device& device) {
    const auto found = machine.near.find(device.bus_id);
    return found == machine.near.end() ? Cores() : found->second;
}

std::set<int> nodes_of(const Machine& machine, const Cores& cores) {
    std::set<int> nodes;
    for (const size_t core : cores)
        nodes.insert(machine.cores[core].node);
    return nodes;
}

// Whether all ranks with something near in common can have cores there.
bool has_room(const Machine& machine, const Placement& placement, const Device& device) {
    const Cores near = near_of(machine, device);
    size_t ranks = 0;
    for (const RankPlan& rank : placement.ranks) {
        Cores both;
        const Cores other = near_of(machine, rank.device);
        std::set_intersection(near.begin(), near.end(), other.begin(), other.end(), std::back_inserter(both));
        ranks += both.empty() ? 0 : 1;
    }
    return ranks <= near.size();
}

void check_places(const Machine& machine, const Options& options, const Placement& placement) {
    for (const RankPlan& rank : placement.ranks) {
        CAPTURE(rank.device.bus_id);
        const Binding& binding = rank.binding;
        const std::set<int> near = nodes_of(machine, near_of(machine, rank.device));
        if (placement.on_gpus && options.placement.bind_to == BindTo::kCore &&
            has_room(machine, placement, rank.device) && placement.ranks.size() <= machine.cores.size())
            CHECK(is_near(machine, rank.device, binding));
        if (near.size() == 1)
            CHECK(binding.node == *near.begin());
        if (binding.node >= 0)
            CHECK(machine.memory_nodes.contains(binding.node));
        const Membind membind = options.placement.membind.value_or(
            options.placement.bind_to == BindTo::kNone ? Membind::kNone : Membind::kPrefer);
        if (membind == Membind::kNone)
            CHECK(binding.memory.empty());
        else if (binding.node >= 0)
            CHECK(binding.memory == std::vector<int>{binding.node});
        CHECK(binding.strict_memory == (membind == Membind::kBind));
        CHECK(variable(rank, "OMP_NUM_THREADS") == std::to_string(binding.threads));
    }
}

// Ranks with the same neighbourhood get equal shares, up to one core.
void check_fairness(const Machine& machine, const Placement& placement) {
    std::map<Cores, std::pair<size_t, size_t>> extremes;
    for (const RankPlan& rank : placement.ranks) {
        const size_t cores = rank.binding.threads;
        auto& [least, most] = extremes.emplace(near_of(machine, rank.device), std::pair(cores, cores)).first->second;
        least = std::min(least, cores);
        most = std::max(most, cores);
    }
    for (const auto& [near, extreme] : extremes)
        CHECK(extreme.second - extreme.first <= 1);
}

void check_one_node(const Machine& machine, const Placement& placement) {
    const auto core_of = gpurun::test::cores_by_cpu(machine);
    std::map<int, size_t> ranks;
    for (const RankPlan& rank : placement.ranks)
        ++ranks[rank.binding.node];
    for (const RankPlan& rank : placement.ranks) {
        Cores cores;
        for (const int cpu : rank.binding.cpus)
            cores.push_back(core_of.at(cpu));
        size_t room = 0;
        for (const auto& core : machine.cores)
            room += core.node == rank.binding.node ? 1 : 0;
        if (ranks[rank.binding.node] <= room && placement.ranks.size() <= machine.cores.size())
            CHECK(nodes_of(machine, cores) == std::set<int>{rank.binding.node});
    }
}

// What a program gets that was not written for gpurun: cudaSetDevice(local rank modulo the number of devices).
void check_cuda_agrees(const std::vector<gpurun::platform::Gpu>& gpus, const Placement& placement) {
    for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
        const RankPlan& plan = placement.ranks[rank];
        std::vector<std::string> visible;
        for (const auto& gpu : gpus)
            visible.push_back(gpu.uuid);
        if (auto list = variable(plan, "CUDA_VISIBLE_DEVICES")) {
            visible.clear();
            for (size_t begin = 0; begin <= list->size();) {
                const size_t end = std::min(list->find(',', begin), list->size());
                visible.push_back(list->substr(begin, end - begin));
                begin = end + 1;
            }
        }
        REQUIRE_FALSE(visible.empty());
        CHECK(visible[rank % visible.size()] == plan.device.uuid);
    }
}

void check_all(const Options& options, const Surroundings& there) {
    const Placement placement = must(place_job(options, there));
    REQUIRE_FALSE(placement.ranks.empty());
    check_places(there.machine, options, placement);
    if (options.placement.bind_to != BindTo::kNone) {
        check_binding(there.machine, devices_of(placement), bindings_of(placement));
        CHECK(placement.core_notice.empty() == (placement.ranks.size() <= there.machine.cores.size()));
    }
    if (options.placement.bind_to == BindTo::kCore)
        check_fairness(there.machine, placement);
    if (options.placement.bind_to == BindTo::kNuma)
        check_one_node(there.machine, placement);
    if (placement.on_gpus && options.placement.map_by != MapBy::kList)
        check_cuda_agrees(there.gpus, placement);
}

// Calls `look` with every combination of mapping and binding, and with few and many ranks.
void for_all_options(size_t gpus, const std::function<void(const Options&)>& look) {
    for (const MapBy map_by : {MapBy::kGpu, MapBy::kNuma, MapBy::kList})
        for (const BindTo bind_to : {BindTo::kCore, BindTo::kNuma, BindTo::kNone})
            for (const auto membind : {std::optional<Membind>(), std::optional(Membind::kBind)})
                for (const size_t ranks : {size_t{0}, size_t{1}, gpus, 2 * gpus, 3 * gpus + 1, size_t{200}}) {
                    Options options;
                    options.programs.resize(1);
                    if (ranks > 0)
                        options.programs[0].ranks = static_cast<uint32_t>(ranks);
                    options.placement.map_by = map_by;
                    options.placement.list = std::to_string(gpus - 1) + ",0";
                    options.placement.bind_to = bind_to;
                    options.placement.membind = membind;
                    options.placement.oversubscribe = ranks > 1;
                    look(options);
                    options.programs[0].ranks.reset();
                    options.placement.ranks_per_gpu = 2;
                    if (ranks == 0 && map_by != MapBy::kList)
                        look(options);
                }
}

Options plain() {
    Options options;
    options.programs.resize(1);
    return options;
}

std::string name_of(const std::string& file) { return std::filesystem::path(file).stem(); }

} // namespace

TEST_SUITE_BEGIN("placement");

TEST_CASE("each rank gets one device and CPUs and memory near it, with every option on every machine") {
    for (const std::string& file : machine_files()) {
        CAPTURE(file);
        const Surroundings there = on_machine(file);
        const size_t gpus = std::max<size_t>(there.gpus.size(), 2);
        for_all_options(gpus, [&](Options options) {
            if (there.gpus.empty())
                options.placement.device = must(parse_device("emulated:" + std::to_string(gpus)));
            else if (there.gpus.size() < gpus)
                options.placement.list = "0,0";
            CAPTURE(static_cast<int>(options.placement.map_by));
            CAPTURE(static_cast<int>(options.placement.bind_to));
            CAPTURE(options.programs[0].ranks.value_or(0));
            check_all(options, there);
        });
    }
}

TEST_CASE("any choice of GPUs agrees with CUDA's numbers, on every machine") {
    for (const std::string& file : machine_files()) {
        const Surroundings there = on_machine(file);
        CAPTURE(file);
        if (there.gpus.size() < 4)
            continue;
        for (const char* gpus : {"0", "3", "0,1", "3,1", "2-3,0", "0-3"})
            for (const uint32_t each : {1u, 2u})
                for (const size_t ranks : {0, 1, 2}) {
                    Options options = plain();
                    options.placement.gpus = gpus;
                    options.placement.ranks_per_gpu = each;
                    if (ranks > 0 &&
                        ranks <= each * must(select_devices("--gpus", gpus,
                                                            must(list_devices({}, 1, there.gpus, "")).devices))
                                            .size())
                        options.programs[0].ranks = static_cast<uint32_t>(ranks);
                    CAPTURE(gpus);
                    CAPTURE(each);
                    check_all(options, there);
                }
    }
}

TEST_CASE("GPUs are near the nodes that people know them to be near") {
    const std::map<std::string, std::vector<int>> known = {
        {"dgx-8gpu-8numa", {3, 3, 1, 1, 7, 7, 5, 5}},
        {"workstation-far-gpu", {1}},
        {"mig-1gpu", {0}},
        {"5gpu-2numa", {0, 0, 0, 1, 1}},
        {"smt4-2gpu", {0, 0}},
        {"restricted-cpuset", {0, 0}}, // the second is on node 1, but no CPU there is allowed
        {"4xH100-8numa", {3, 1, 7, 5}},
        {"4xV100-power9", {0, 0, 8, 8}},
        {"8xH100-aws-p5", {0, 0, 0, 0, 1, 1, 1, 1}},
        {"8xT4-g4dn", {0, 0, 0, 0, 1, 1, 1, 1}},
    };
    size_t seen = 0;
    for (const std::string& file : machine_files()) {
        const auto found = known.find(name_of(file));
        if (found == known.end())
            continue;
        CAPTURE(file);
        const Placement placement = must(place_job(plain(), on_machine(file)));
        REQUIRE(placement.ranks.size() == found->second.size());
        for (size_t rank = 0; rank < placement.ranks.size(); ++rank)
            CHECK(placement.ranks[rank].binding.node == found->second[rank]);
        ++seen;
    }
    CHECK(seen >= 6);
}

TEST_CASE("a rank sees the GPUs of the job, in the ranks' order where that is another") {
    Surroundings there = on_machine(OWN_TOPOLOGIES "/5gpu-2numa.xml");
    for (size_t i = 0; i < there.gpus.size(); ++i)
        there.gpus[i].uuid = std::string("GPU-") + static_cast<char>('a' + i);
    const auto visible = [&](const std::function<void(Options&)>& change) {
        Options options = plain();
        change(options);
        return variable(must(place_job(options, there)).ranks[0], "CUDA_VISIBLE_DEVICES").value_or("unset");
    };
    CHECK(visible([](Options&) {}) == "unset");
    CHECK(visible([](Options& o) { o.programs[0].ranks = 2; }) == "unset");
    CHECK(visible([](Options& o) { o.placement.gpus = "0-4"; }) == "unset");
    CHECK(visible([](Options& o) { o.placement.gpus = "3,1"; }) == "GPU-d,GPU-b");
    CHECK(visible([](Options& o) {
              o.placement.gpus = "3,1";
              o.programs[0].ranks = 1;
          }) == "GPU-d,GPU-b");
    CHECK(visible([](Options& o) { o.placement.map_by = MapBy::kNuma; }) == "GPU-a,GPU-d,GPU-b,GPU-e,GPU-c");
    CHECK(visible([](Options& o) {
              o.placement.ranks_per_gpu = 2;
              o.programs[0].ranks = 4;
          }) == "GPU-a,GPU-b");
    CHECK(visible([](Options& o) {
              o.placement.map_by = MapBy::kList;
              o.placement.list = "4,4,0";
          }) == "GPU-e,GPU-a");
    CHECK(visible([](Options& o) { o.placement.gpu_visible = GpuVisible::kOwn; }) == "GPU-a");
}

TEST_CASE("with MIG each rank sees its own instance, since CUDA shows no more than one") {
    Surroundings there = on_machine(OWN_TOPOLOGIES "/mig-1gpu.xml");
    const std::string bus_id = there.gpus[0].bus_id;
    there.gpus = {{"MIG-1", bus_id, "1g", "GPU-a"}, {"MIG-2", bus_id, "1g", "GPU-a"}, {"MIG-3", bus_id, "2g", "GPU-a"}};
    Options options = plain();
    options.placement.gpus = "GPU-a";
    const Placement placement = must(place_job(options, there));
    REQUIRE(placement.ranks.size() == 3);
    check_binding(there.machine, devices_of(placement), bindings_of(placement));
    CHECK(variable(placement.ranks[2], "CUDA_VISIBLE_DEVICES") == "MIG-3");
    CHECK(placement.ranks[2].device.setting == "cuda:MIG-3");
    CHECK(placement.ranks[2].sees_only_its_own);
    options.placement.gpus = "MIG-2";
    CHECK(must(place_job(options, there)).ranks[0].device.uuid == "MIG-2");
}

TEST_CASE("ranks of several programs are numbered in the order of the programs") {
    const Surroundings there = on_machine(OWN_TOPOLOGIES "/5gpu-2numa.xml");
    Options options;
    options.programs.resize(2);
    options.programs[0].ranks = 1;
    options.programs[0].settings = {{"ROLE", "head"}};
    options.programs[1].ranks = 3;
    const Placement placement = must(place_job(options, there));
    REQUIRE(placement.ranks.size() == 4);
    CHECK(placement.ranks[0].program == 0);
    CHECK(variable(placement.ranks[0], "ROLE") == "head");
    for (size_t rank = 1; rank < 4; ++rank) {
        CHECK(placement.ranks[rank].program == 1);
        CHECK(placement.ranks[rank].device.number == rank);
        CHECK_FALSE(variable(placement.ranks[rank], "ROLE").has_value());
    }
}

TEST_CASE("emulated devices are as many as ranks, or as ranks need") {
    const Surroundings there = on_machine(OWN_TOPOLOGIES "/no-gpu.xml");
    const auto settings = [&](const char* device, std::optional<uint32_t> ranks, std::optional<uint32_t> each) {
        Options options = plain();
        if (device != nullptr)
            options.placement.device = must(parse_device(device));
        options.programs[0].ranks = ranks;
        options.placement.ranks_per_gpu = each;
        std::string all;
        for (const RankPlan& rank : must(place_job(options, there)).ranks)
            all += rank.device.setting + " ";
        return all;
    };
    CHECK(settings("emulated", {}, {}) == "emulated:0/1 ");
    CHECK(settings(nullptr, 2, {}) == "emulated:0/2 emulated:1/2 ");
    CHECK(settings("emulated", 3, 2) == "emulated:0/2 emulated:1/2 emulated:0/2 ");
    CHECK(settings("emulated:3", {}, {}) == "emulated:0/3 emulated:1/3 emulated:2/3 ");
    CHECK(settings("emulated:4", 2, {}) == "emulated:0/4 emulated:1/4 ");
    CHECK(settings("emulated:2", {}, 2) == "emulated:0/2 emulated:1/2 emulated:0/2 emulated:1/2 ");

    Options listed = plain();
    listed.placement.device = must(parse_device("emulated"));
    listed.placement.map_by = MapBy::kList;
    listed.placement.list = "1-2,0";
    CHECK(must(place_job(listed, there)).ranks[0].device.setting == "emulated:1/3");
    listed.placement.list = "GPU-0";
    CHECK_STATUS(place_job(listed, there), Status::kArgument);
}

TEST_CASE("what cannot be followed on this machine is an error that says why") {
    const Surroundings there = on_machine(OWN_TOPOLOGIES "/workstation-far-gpu.xml");
    Options options = plain();
    options.programs[0].ranks = 2;
    CHECK(detail_of(place_job(options, there)).find("2 ranks, but 1 GPU:") != std::string::npos);
    options = plain();
    options.placement.map = must(parse_map("0:0-8"));
    CHECK(detail_of(place_job(options, there)).find("no CPU 8") != std::string::npos);
    options = plain();
    options.programs[0].settings = {{"NOT_HERE", {}}};
    CHECK_STATUS(place_job(options, there), Status::kArgument);
}

TEST_SUITE_END();

} // namespace gpurun::test::placement
