#include "platform/topology.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hwloc.h>
#include <memory>
#include <optional>
#include <string>

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
        if (is_main_memory(node) && !hwloc_bitmap_iszero(node->cpuset))
            ++machine.nodes;
}

void read_devices(hwloc_topology_t topology, Machine& machine) {
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
        if (!computes(device))
            continue;
        const auto& pci = device->attr->pcidev;
        const std::string bus_id = base::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain),
                                                unsigned{pci.bus}, unsigned{pci.dev}, unsigned{pci.func});
        std::vector<size_t>& near = machine.near[bus_id];
        const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);
        for (size_t i = 0; parent != nullptr && parent->cpuset != nullptr && i < machine.cores.size(); ++i)
            if (hwloc_bitmap_isset(parent->cpuset, static_cast<unsigned>(machine.cores[i].cpus[0])))
                near.push_back(i);
    }
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

base::Result<Machine> load(Topology topology, bool with_pci) {
    if (with_pci)
        hwloc_topology_set_type_filter(topology.get(), HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology.get()) != 0)
        return system_error("reading the machine's topology");
    Bitmap allowed(hwloc_bitmap_alloc());
    // What this process is bound to (taskset, a batch system) is all that its ranks may use.
    if (hwloc_topology_is_thissystem(topology.get()) != 0 &&
        hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_topology_restrict(topology.get(), allowed.get(), HWLOC_RESTRICT_FLAG_ADAPT_IO);
    return describe(topology.get());
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
    return load(std::move(topology), with_pci);
}

base::Result<Machine> read_machine(const std::string& xml_path) {
    GPURUN_ASSIGN(Topology topology, new_topology());
    if (hwloc_topology_set_xml(topology.get(), xml_path.c_str()) != 0)
        return system_error(xml_path);
    return load(std::move(topology), true);
}

base::Result<Machine> synthetic_machine(const std::string& description) {
    GPURUN_ASSIGN(Topology topology, new_topology());
    if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0)
        return base::error(base::Status::kArgument, "'{}' describes no machine", description);
    return load(std::move(topology), false);
}

std::string normal_bus_id(const std::string& text) {
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned function = 0;
    int end = 0;
    if (std::sscanf(text.c_str(), "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) != 4 ||
        static_cast<size_t>(end) != text.size())
        return "";
    return base::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

} // namespace gpurun::platform
