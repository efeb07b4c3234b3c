// Options that say where ranks run: on which devices, on which CPUs, with which memory.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

class OptionReader;

enum class DeviceKind { kAuto, kCuda, kEmulated };
enum class MapBy { kGpu, kNuma, kList };
enum class BindTo { kCore, kNuma, kNone };
// Where a rank's memory comes from: the node of its GPU if that has some left, that node or none, wherever.
enum class Membind { kPrefer, kBind, kNone };
enum class GpuVisible { kJob, kOwn };

struct DeviceChoice {
    DeviceKind kind = DeviceKind::kAuto;
    std::optional<uint32_t> count; // of emulated devices
    bool given = false;            // asked for by --device, so no notice is needed
};

// One rank of --map.
struct MapEntry {
    std::string gpu; // as written
    std::vector<int> cpus;
    std::optional<int> node;
};

struct PlacementOptions {
    DeviceChoice device;
    std::optional<std::string> gpus; // as written: what is there decides whether they are
    MapBy map_by = MapBy::kGpu;
    std::string list; // of --map-by list:
    std::optional<uint32_t> ranks_per_gpu;
    std::vector<MapEntry> map; // not empty: it says everything
    BindTo bind_to = BindTo::kCore;
    std::optional<Membind> membind; // none: kPrefer for ranks that are bound to CPUs
    GpuVisible gpu_visible = GpuVisible::kJob;
    bool oversubscribe = false;
};

// The options as written, before any of them is understood.
struct PlacementWords {
    std::optional<std::string> device;
    std::optional<std::string> gpus;
    std::optional<std::string> map_by;
    std::optional<std::string> ranks_per_gpu;
    std::optional<std::string> map;
    std::optional<std::string> bind_to;
    std::optional<std::string> membind;
    std::optional<std::string> gpu_visible;
    bool oversubscribe = false;

    void add_to(OptionReader& reader);
};

base::Result<PlacementOptions> understand(const PlacementWords& words);

// auto, cuda, emulated or emulated:COUNT
base::Result<DeviceChoice> parse_device(const std::string& text);
// 'GPU:CPUS[:NODE]',...: one rank each. CPUS is as "0-7+16-23", or "0-7,16-23" where it cannot be a GPU that follows.
base::Result<std::vector<MapEntry>> parse_map(const std::string& text);

} // namespace gpurun::launcher
