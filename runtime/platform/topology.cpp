#include "platform/topology.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <hwloc.h>
#include <hwloc/distances.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gpurun::platform {

namespace {

struct DestroyTopology {
    void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
    void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Classes of PCI devices that may be GPUs: display controllers and processing accelerators.
bool computes(const hwloc_obj_t device) {
    const unsigned kind = device->attr->pcidev.class_id >> 8;
    return kind == 0x03 || kind == 0x12;
}

constexpr unsigned kNvidia = 0x10de;

// Memory of a GPU or a slow tier is a NUMA node on some machines, but no home for a process.
bool is_main_memory(const hwloc_obj_t node) {
    return node->subtype == nullptr || std::strcmp(node->subtype, "DRAM") == 0;
}

int node_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
        if (is_main_memory(node) && hwloc_bitmap_intersects(node->cpuset, cpus))
            return static_cast<int>(node->os_index);
    return -1;
}

std::vector<int> numbers(hwloc_const_bitmap_t bitmap) {
    std::vector<int> result;
    for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
        result.push_back(i);
    return result;
}

void read_cores(hwloc_topology_t topology, Machine& machine) {
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr)
        if (!hwloc_bitmap_iszero(core->cpuset))
            machine.cores.push_back(Core{numbers(core->cpuset), node_of(topology, core->cpuset)});
    // Some machines (virtual ones, containers, records) do not tell cores: each CPU counts as one then.
    if (machine.cores.empty())
        for (const int cpu : numbers(hwloc_topology_get_topology_cpuset(topology))) {
            const Bitmap alone(hwloc_bitmap_alloc());
            hwloc_bitmap_only(alone.get(), static_cast<unsigned>(cpu));
            machine.cores.push_back(Core{{cpu}, node_of(topology, alone.get())});
        }
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
        if (is_main_memory(node))
            machine.memory_nodes.insert(static_cast<int>(node->os_index));
}

// Where the cores that this process may use are none of the device's own, those further up are the nearest.
std::vector<size_t> cores_near(hwloc_topology_t topology, hwloc_obj_t device, const Machine& machine) {
    std::vector<size_t> near;
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    for (; place != nullptr && near.empty(); place = place->parent)
        for (size_t i = 0; place->cpuset != nullptr && i < machine.cores.size(); ++i)
            if (hwloc_bitmap_isset(place->cpuset, static_cast<unsigned>(machine.cores[i].cpus[0])))
                near.push_back(i);
    return near;
}

// Machines recorded where hwloc knew CUDA or NVML tell more.
PciGpu describe_gpu(hwloc_obj_t device, const std::string& bus_id) {
    PciGpu gpu{bus_id, "", ""};
    for (hwloc_obj_t part = device->io_first_child; part != nullptr; part = part->next_sibling) {
        if (const char* uuid = hwloc_obj_get_info_by_name(part, "NVIDIAUUID"); uuid != nullptr)
            gpu.uuid = uuid;
        if (const char* name = hwloc_obj_get_info_by_name(part, "GPUModel"); name != nullptr)
            gpu.name = name;
    }
    if (const char* name = hwloc_obj_get_info_by_name(device, "PCIDevice"); name != nullptr && gpu.name.empty())
        gpu.name = name;
    return gpu;
}

PciPath path_between(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b) {
    hwloc_obj_t common = a->parent;
    for (; common != nullptr; common = common->parent) {
        hwloc_obj_t above = b->parent;
        while (above != nullptr && above != common)
            above = above->parent;
        if (above == common)
            break;
    }
    if (common != nullptr && common->type == HWLOC_OBJ_BRIDGE)
        return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? PciPath::kSwitch : PciPath::kHostBridge;
    hwloc_obj_t node = nullptr;
    size_t nodes = 0;
    while (common != nullptr && (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr)
        nodes += is_main_memory(node) && hwloc_bitmap_isset(common->nodeset, node->os_index) ? 1 : 0;
    return nodes == 1 ? PciPath::kNode : PciPath::kSystem;
}

using BusIds = std::map<hwloc_obj_t, std::string>; // of GPUs

void read_paths(hwloc_topology_t topology, const BusIds& gpus, Machine& machine) {
    for (const auto& [a, id_of_a] : gpus)
        for (const auto& [b, id_of_b] : gpus)
            if (id_of_a < id_of_b)
                machine.paths[{id_of_a, id_of_b}] = path_between(topology, a, b);
}

// hwloc with NVML's plugin has recorded how fast they are; here it counts that there are some.
void read_nvlinks(hwloc_topology_t topology, const BusIds& gpus, Machine& machine) {
    unsigned count = 1;
    hwloc_distances_s* distances = nullptr;
    if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &count, &distances, 0) != 0 || count == 0)
        return;
    for (unsigned i = 0; i < distances->nbobjs; ++i)
        for (unsigned j = 0; j < distances->nbobjs; ++j) {
            const auto a = gpus.find(distances->objs[i] != nullptr ? distances->objs[i]->parent : nullptr);
            const auto b = gpus.find(distances->objs[j] != nullptr ? distances->objs[j]->parent : nullptr);
            if (a != gpus.end() && b != gpus.end() && a->second < b->second &&
                distances->values[i * distances->nbobjs + j] > 0)
                machine.nvlinks.insert({a->second, b->second});
        }
    hwloc_distances_release(topology, distances);
}

void read_devices(hwloc_topology_t topology, Machine& machine) {
    BusIds gpus;
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
        if (!computes(device))
            continue;
        const auto& pci = device->attr->pcidev;
        const std::string bus_id = base::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain),
                                                unsigned{pci.bus}, unsigned{pci.dev}, unsigned{pci.func});
        machine.near[bus_id] = cores_near(topology, device, machine);
        if (pci.vendor_id == kNvidia) {
            machine.gpus.push_back(describe_gpu(device, bus_id));
            gpus[device] = bus_id;
        }
    }
    read_paths(topology, gpus, machine);
    read_nvlinks(topology, gpus, machine);
    std::sort(machine.gpus.begin(), machine.gpus.end(),
              [](const PciGpu& a, const PciGpu& b) { return a.bus_id < b.bus_id; });
}

Machine describe(hwloc_topology_t topology) {
    Machine machine;
    read_cores(topology, machine);
    read_devices(topology, machine);
    return machine;
}

// hwloc loads all its plug-ins, and with them the libraries of graphics stacks and XML, before it can be told which to
// use. This machine needs none of them, and would wait longer for them than for all the rest; recorded ones need XML.
class WithoutPlugins {
  public:
    WithoutPlugins() {
        if (const char* path = std::getenv(kVariable); path != nullptr)
            chosen_ = path;
        ::setenv(kVariable, "", 1);
    }
    WithoutPlugins(const WithoutPlugins&) = delete;
    ~WithoutPlugins() {
        if (chosen_)
            ::setenv(kVariable, chosen_->c_str(), 1);
        else
            ::unsetenv(kVariable);
    }

  private:
    static constexpr const char* kVariable = "HWLOC_PLUGINS_PATH";
    std::optional<std::string> chosen_;
};

base::Result<Topology> new_topology() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0)
        return system_error("starting hwloc");
    Topology topology(raw);
    // GPUs are matched by their bus id here, whoever built hwloc without plug-ins; what PCI devices and processors
    // there are, Linux says itself, and need not be asked of each processor on itself (x86).
    for (const char* component : {"x86", "pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"})
        hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    return topology;
}

// What nobody asks for here would be read from some twenty files for each CPU.
void leave_out_details(hwloc_topology_t topology) {
    hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
#if HWLOC_API_VERSION >= 0x00020800
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                           HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
#endif
}

base::Result<Machine> load(Topology topology, bool with_pci) {
    if (with_pci)
        for (const hwloc_obj_type_t type : {HWLOC_OBJ_PCI_DEVICE, HWLOC_OBJ_BRIDGE})
            hwloc_topology_set_type_filter(topology.get(), type, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology.get()) != 0)
        return system_error("reading the machine's topology");
    Bitmap allowed(hwloc_bitmap_alloc());
    // What this process is bound to (taskset, a batch system) is all that its ranks may use.
    if (hwloc_topology_is_thissystem(topology.get()) != 0 &&
        hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_topology_restrict(topology.get(), allowed.get(), HWLOC_RESTRICT_FLAG_ADAPT_IO);
    return describe(topology.get());
}

// One to eight digits, and nothing else.
std::optional<unsigned> hexadecimal(std::string_view text) {
    unsigned value = 0;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (failed != std::errc{} || stop != text.data() + text.size() || text.size() > 8)
        return std::nullopt;
    return value;
}

} // namespace

size_t Machine::cpus() const {
    size_t count = 0;
    for (const Core& core : cores)
        count += core.cpus.size();
    return count;
}

base::Result<Machine> discover_machine(bool with_pci) {
    const WithoutPlugins quick;
    GPURUN_ASSIGN(Topology topology, new_topology());
    leave_out_details(topology.get());
    return load(std::move(topology), with_pci);
}

base::Result<Machine> read_machine(const std::string& xml_path) {
    GPURUN_ASSIGN(Topology topology, new_topology());
    const auto no_record = [&] {
        return base::error(
            base::Status::kArgument,
            "{} is no machine in hwloc's XML format, as \"lstopo FILE.xml\" records it. If it is, hwloc lacks its "
            "libxml2 plugin here: install it (libhwloc-plugins on Debian and Ubuntu)",
            xml_path);
    };
    if (hwloc_topology_set_xml(topology.get(), xml_path.c_str()) != 0)
        return errno == EINVAL ? no_record() : system_error(xml_path);
    // They know names and UUIDs.
    hwloc_topology_set_type_filter(topology.get(), HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    auto machine = load(std::move(topology), true);
    return machine ? std::move(machine) : no_record();
}

base::Result<Machine> synthetic_machine(const std::string& description) {
    GPURUN_ASSIGN(Topology topology, new_topology());
    if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0)
        return base::error(base::Status::kArgument, "'{}' describes no machine", description);
    return load(std::move(topology), false);
}

std::string normal_bus_id(const std::string& text) {
    const std::string_view all = text;
    const size_t point = all.find('.');
    if (point == std::string_view::npos)
        return "";
    std::vector<unsigned> fields;
    std::string_view rest = all.substr(0, point);
    while (fields.size() < 3) { // the domain may be left out
        const size_t colon = std::min(rest.find(':'), rest.size());
        const auto field = hexadecimal(rest.substr(0, colon));
        if (!field)
            return "";
        fields.push_back(*field);
        if (colon == rest.size())
            break;
        rest.remove_prefix(colon + 1);
        if (fields.size() == 3)
            return "";
    }
    const auto function = hexadecimal(all.substr(point + 1));
    if (fields.size() < 2 || !function || *function > 7)
        return "";
    fields.insert(fields.begin(), 3 - fields.size(), 0u);
    return base::format("{:04x}:{:02x}:{:02x}.{:x}", fields[0], fields[1], fields[2], *function);
}

} // namespace gpurun::platform
