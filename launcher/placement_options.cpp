#include "placement_options.hpp"

#include "cpu_list.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"
#include "platform/topology.hpp"
#include "ranges.hpp"

#include <string_view>

namespace gpurun::launcher {

namespace {

constexpr Choice<BindTo> kBindTo[] = {{"core", BindTo::kCore}, {"numa", BindTo::kNuma}, {"none", BindTo::kNone}};
constexpr Choice<Membind> kMembind[] = {
    {"prefer", Membind::kPrefer}, {"bind", Membind::kBind}, {"none", Membind::kNone}};
constexpr Choice<GpuVisible> kGpuVisible[] = {{"job", GpuVisible::kJob}, {"own", GpuVisible::kOwn}};

constexpr std::string_view kList = "list:";
// Ranges of one rank are joined by this, since commas separate ranks; or by commas, where that is clear.
constexpr char kJoin = '+';

// With or without modifiers behind it: "slot:PE=4".
bool is_place_of_mpirun(std::string_view text) {
    const std::string_view place = text.substr(0, text.find(':'));
    for (const char* const theirs :
         {"slot", "core", "hwthread", "l1cache", "l2cache", "l3cache", "socket", "package", "node"})
        if (place == theirs)
            return true;
    return false;
}

base::Result<void> understand_map_by(const std::string& text, PlacementOptions& options) {
    if (text == "gpu")
        options.map_by = MapBy::kGpu;
    else if (text == "numa")
        options.map_by = MapBy::kNuma;
    else if (text.starts_with(kList) && text.size() > kList.size()) {
        options.map_by = MapBy::kList;
        options.list = text.substr(kList.size());
    } else if (text.starts_with("ppr:"))
        return base::error(base::Status::kArgument,
                           "--map-by {}: mpirun's ppr:N:gpu is --ranks-per-gpu N here, and ppr:N:node is -n N", text);
    else if (is_place_of_mpirun(text) && text.find(":PE=") != std::string::npos)
        return base::error(base::Status::kArgument,
                           "--map-by {} is mpirun's: leave it out (each rank gets its share of the cores near its "
                           "GPU), or choose them with --map GPU:CPUS,...",
                           text);
    else if (is_place_of_mpirun(text))
        return base::error(base::Status::kArgument,
                           "--map-by {} is mpirun's: leave it out (ranks get the GPUs in turn), or write numa to take "
                           "one of each NUMA node in turn",
                           text);
    else
        return base::error(base::Status::kArgument,
                           "--map-by must be gpu, numa or list:GPU,... (the GPU of rank 0, of rank 1, ...), not '{}'",
                           text);
    return {};
}

// Where the name of the GPU ends: a PCI address has colons of its own.
size_t end_of_gpu(std::string_view text) {
    if (const size_t point = text.find('.'); point != std::string_view::npos && point + 1 < text.size())
        if (!platform::normal_bus_id(std::string(text.substr(0, point + 2))).empty())
            return point + 2;
    return text.find(':');
}

base::Error bad_entry(std::string_view text) {
    return base::error(
        base::Status::kArgument,
        "--map: '{}' is not GPU:CPUS or GPU:CPUS:NODE, for example 0:0-7 or 0:0-7+16-23:1 (ranges of one "
        "rank are joined by +, ranks separated by commas)",
        text);
}

base::Result<MapEntry> parse_entry(std::string_view text) {
    const size_t end = end_of_gpu(text);
    if (end == std::string_view::npos || end == 0 || end >= text.size() || text[end] != ':')
        return bad_entry(text);
    MapEntry entry;
    entry.gpu = text.substr(0, end);
    const std::string_view rest = text.substr(end + 1);
    const size_t colon = std::min(rest.find(':'), rest.size());
    auto cpus = parse_cpus(rest.substr(0, colon), kJoin);
    if (!cpus)
        return bad_entry(text);
    entry.cpus = std::move(*cpus);
    if (colon == rest.size())
        return entry;
    const auto node = parse_range(rest.substr(colon + 1));
    if (!node || node->first != node->last)
        return bad_entry(text);
    entry.node = node->first;
    return entry;
}

// Whether this goes on with the CPUs of the rank before it: it is a number, or begins with a range, which is no GPU.
bool continues_cpus(std::string_view piece) {
    const size_t colon = piece.find(':');
    const auto range = parse_range(piece.substr(0, colon));
    return range && (colon == std::string_view::npos || range->first != range->last);
}

// --map says which GPU, CPUs and memory each rank gets: nothing is left for the others to say.
base::Result<void> check_map_is_alone(const PlacementWords& words) {
    const std::pair<bool, const char*> others[] = {{words.gpus.has_value(), "--gpus"},
                                                   {words.map_by.has_value(), "--map-by"},
                                                   {words.ranks_per_gpu.has_value(), "--ranks-per-gpu"},
                                                   {words.bind_to.has_value(), "--bind-to"}};
    for (const auto& [given, name] : others)
        if (given)
            return base::error(base::Status::kArgument, "--map already says what {} would: leave one of them out",
                               name);
    return {};
}

} // namespace

void PlacementWords::add_to(OptionReader& reader) {
    reader.add_option("--device", device);
    reader.add_option("--gpus", gpus);
    reader.add_option("--map-by", map_by);
    reader.add_option("--ranks-per-gpu", ranks_per_gpu);
    reader.add_option("--map", map);
    reader.add_option("--bind-to", bind_to);
    reader.add_flag("--membind{bind}", membind);
    reader.add_option("--gpu-visible", gpu_visible);
    reader.add_flag("--oversubscribe", oversubscribe);
}

base::Result<PlacementOptions> understand(const PlacementWords& words) {
    PlacementOptions options;
    options.oversubscribe = words.oversubscribe;
    options.gpus = words.gpus;
    if (words.device) {
        GPURUN_ASSIGN(options.device, parse_device(*words.device));
    }
    if (words.map_by)
        GPURUN_TRY(understand_map_by(*words.map_by, options));
    if (words.ranks_per_gpu) {
        GPURUN_ASSIGN(options.ranks_per_gpu, parse_count(*words.ranks_per_gpu, "--ranks-per-gpu"));
    }
    if (words.bind_to == "socket")
        return base::error(base::Status::kArgument, "--bind-to socket is mpirun's: write --bind-to numa");
    if (words.bind_to == "hwthread")
        return base::error(base::Status::kArgument,
                           "--bind-to hwthread is mpirun's: leave it out (ranks get whole cores, "
                           "and hardware threads where there are more ranks than cores)");
    if (words.bind_to) {
        GPURUN_ASSIGN(options.bind_to, parse_choice(*words.bind_to, "--bind-to", kBindTo));
    }
    if (words.membind) {
        GPURUN_ASSIGN(options.membind, parse_choice(*words.membind, "--membind", kMembind));
    }
    if (words.gpu_visible) {
        GPURUN_ASSIGN(options.gpu_visible, parse_choice(*words.gpu_visible, "--gpu-visible", kGpuVisible));
    }
    if (options.map_by == MapBy::kList && options.ranks_per_gpu)
        return base::error(base::Status::kArgument,
                           "--map-by list: already says how many ranks each GPU gets: leave --ranks-per-gpu out");
    if (words.map) {
        GPURUN_TRY(check_map_is_alone(words));
        GPURUN_ASSIGN(options.map, parse_map(*words.map));
    }
    return options;
}

base::Result<DeviceChoice> parse_device(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    DeviceChoice choice;
    choice.given = true;
    if (kind == "emulated") {
        choice.kind = DeviceKind::kEmulated;
        if (colon != std::string::npos) {
            GPURUN_ASSIGN(choice.count, parse_count(text.substr(colon + 1), "the number of emulated devices"));
        }
        return choice;
    }
    if (text == "cuda")
        choice.kind = DeviceKind::kCuda;
    else if (text != "auto")
        return base::error(base::Status::kArgument, "--device must be auto, cuda, emulated or emulated:COUNT, not '{}'",
                           text);
    return choice;
}

base::Result<std::vector<MapEntry>> parse_map(const std::string& text) {
    std::vector<std::string> words;
    const std::string_view all = text;
    for (size_t begin = 0; begin <= all.size();) {
        const size_t end = std::min(all.find(',', begin), all.size());
        const std::string_view piece = all.substr(begin, end - begin);
        if (!words.empty() && continues_cpus(piece))
            words.back().append(1, kJoin).append(piece);
        else
            words.emplace_back(piece);
        begin = end + 1;
    }
    std::vector<MapEntry> entries;
    for (const std::string& word : words) {
        GPURUN_ASSIGN(MapEntry entry, parse_entry(word));
        entries.push_back(std::move(entry));
    }
    return entries;
}

} // namespace gpurun::launcher
