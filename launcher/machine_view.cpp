#include "machine_view.hpp"

#include <cstdlib>
#include <set>

namespace gpurun::launcher {

namespace {

platform::GpuInventory recorded_gpus(const platform::Machine& machine) {
    platform::GpuInventory inventory;
    for (const platform::PciGpu& gpu : machine.gpus)
        inventory.gpus.push_back({gpu.uuid, gpu.bus_id, gpu.name, ""});
    if (inventory.gpus.empty())
        inventory.absence = "the record has no NVIDIA GPU";
    return inventory;
}

// As for every program of CUDA's, whatever machine it is.
base::Result<void> hide_invisible(platform::GpuInventory& inventory) {
    if (inventory.gpus.empty())
        return {};
    GPURUN_ASSIGN(inventory.gpus, platform::visible_gpus(inventory.gpus, std::getenv("CUDA_VISIBLE_DEVICES")));
    if (inventory.gpus.empty())
        inventory.absence = "CUDA_VISIBLE_DEVICES hides every GPU";
    return {};
}

} // namespace

base::Result<MachineView> view_machine(const Options& options) {
    MachineView view;
    platform::GpuInventory inventory;
    // Asking NVML takes longer than a short program, and so does looking for PCI devices.
    const bool emulated = options.placement.device.kind == DeviceKind::kEmulated;
    if (options.report.record) {
        GPURUN_ASSIGN(view.machine, platform::read_machine(*options.report.record));
        inventory = recorded_gpus(view.machine);
    } else if (emulated) {
        inventory.absence = "--device=emulated leaves them out";
    } else {
        inventory = platform::find_gpus();
    }
    GPURUN_TRY(hide_invisible(inventory));
    view.gpus = std::move(inventory.gpus);
    view.absence = std::move(inventory.absence);
    view.unusable = std::move(inventory.unusable);
    if (!options.report.record) {
        GPURUN_ASSIGN(view.machine, platform::discover_machine(!view.gpus.empty()));
    }
    return view;
}

GpuPlace place_of(const platform::Gpu& gpu, const platform::Machine& machine) {
    GpuPlace found;
    const auto near = machine.near.find(gpu.bus_id);
    if (near == machine.near.end())
        return found;
    std::set<int> nodes;
    for (const size_t core : near->second) {
        const std::vector<int>& cpus = machine.cores[core].cpus;
        found.cpus.insert(found.cpus.end(), cpus.begin(), cpus.end());
        nodes.insert(machine.cores[core].node);
    }
    found.nodes.assign(nodes.begin(), nodes.end());
    return found;
}

std::vector<int> cpus_of_node(const platform::Machine& machine, int node) {
    std::vector<int> cpus;
    for (const platform::Core& core : machine.cores)
        if (core.node == node)
            cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    return cpus;
}

} // namespace gpurun::launcher
