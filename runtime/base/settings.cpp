#include "base/settings.hpp"

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/read_number.hpp"

#include <climits>
#include <utility>

namespace gpurun::base {

namespace {

template <typename T>
struct Choice {
    const char* word;
    T value;
};

template <typename T, size_t N>
Result<void> read_choice(const std::string& text, const Choice<T> (&choices)[N], T& target) {
    std::string allowed;
    for (const auto& choice : choices) {
        if (text == choice.word) {
            target = choice.value;
            return {};
        }
        allowed += allowed.empty() ? choice.word : std::string(", ") + choice.word;
    }
    return error(Status::kSetting, "must be one of {}", allowed);
}

constexpr Choice<ErrorMode> kErrors[] = {
    {"return", ErrorMode::kReturn}, {"warn", ErrorMode::kWarn}, {"abort", ErrorMode::kAbort}};
constexpr Choice<int> kLogLevels[] = {{"off", 0}, {"error", 1}, {"warn", 2}, {"info", 3}, {"debug", 4}};
constexpr Choice<bool> kSwitches[] = {{"0", false}, {"1", true}};
constexpr Choice<Reports> kReports[] = {{"none", {}},
                                        {"paths", {.paths = true}},
                                        {"loans", {.loans = true}},
                                        {"collectives", {.collectives = true}},
                                        {"all", {.paths = true, .loans = true, .collectives = true}}};
constexpr Choice<bool> kSwitch[] = {{"on", true}, {"off", false}};
constexpr Choice<bool> kProgress[] = {{"thread", true}, {"calls", false}};
constexpr Choice<FenceKind> kFences[] = {
    {"auto", FenceKind::kAuto}, {"counter", FenceKind::kCounter}, {"event", FenceKind::kEvent}};
constexpr Choice<OrderedMemory> kOrderedMemory[] = {
    {"own", OrderedMemory::kOwn}, {"other", OrderedMemory::kOther}, {"managed", OrderedMemory::kManaged}};
constexpr Choice<PathChoice> kPaths[] = {{"auto", PathChoice::kAuto},
                                         {"direct", PathChoice::kDirect},
                                         {"bounce", PathChoice::kBounce},
                                         {"staged", PathChoice::kStaged}};

Result<void> read_peer_access(Settings& settings, const std::string& text) {
    // Pairs are checked against the number of devices by the emulated device; here only their form.
    if (text != "all" && text != "none" && text.find_first_not_of("0123456789-,") != std::string::npos)
        return error(Status::kSetting, "must be all, none, or pairs of device ordinals such as 0-1,2-3");
    settings.emulated_peer_access = text;
    return {};
}

template <AlgorithmRules AlgorithmsAskedFor::*kRules>
Result<void> read_algorithms(Settings& settings, const std::string& text) {
    for (const AlgorithmChoices& each : kAlgorithmChoices)
        if (each.rules == kRules) {
            GPURUN_ASSIGN(settings.algorithms.*kRules, AlgorithmRules::read(text, each.allowed));
        }
    return {};
}

Result<void> read_capabilities(Settings& settings, const std::string& text) {
    // Names are checked by the emulated device, which knows them; here only their form.
    if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-,") != std::string::npos)
        return error(Status::kSetting, "must be all, none, or a list of capabilities such as counters,mails");
    settings.emulated_capabilities = text;
    return {};
}

constexpr SettingInfo kTable[] = {
    {"GPURUN_RANK", "0", "this process's rank", true,
     [](Settings& s, const std::string& t) { return read_number(t, 0, INT_MAX, s.rank); }},
    {"GPURUN_SIZE", "1", "number of ranks in the job", true,
     [](Settings& s, const std::string& t) { return read_number(t, 1, INT_MAX, s.size); }},
    {"GPURUN_LOCAL_RANK", "0", "this process's rank among those on its node", true,
     [](Settings& s, const std::string& t) { return read_number(t, 0, INT_MAX, s.local_rank); }},
    {"GPURUN_LOCAL_SIZE", "1", "number of ranks on this node", true,
     [](Settings& s, const std::string& t) { return read_number(t, 1, INT_MAX, s.local_size); }},
    {"GPURUN_CONTROL_FD", "", "file descriptor of the socket to gpurun", true,
     [](Settings& s, const std::string& t) { return read_number(t, 0, INT_MAX, s.control_fd); }},
    {"GPURUN_DEVICE", "auto", "the rank's device: auto, cuda:UUID, cuda:ORDINAL or emulated:ORDINAL/COUNT", true,
     [](Settings& s, const std::string& t) {
         s.device = t;
         return Result<void>{};
     }},
    {"GPURUN_MPS", "0", "1: an MPS daemon serves the ranks' GPUs", true,
     [](Settings& s, const std::string& t) { return read_choice(t, kSwitches, s.mps); }},
    {"GPURUN_JOB", "", "the job's name", true,
     [](Settings& s, const std::string& t) {
         s.job = t;
         return Result<void>{};
     }},
    {"CUDA_DEVICE_MAX_CONNECTIONS", "32",
     "hardware queues of the GPU that the rank uses, from which its number of streams follows", true,
     [](Settings& s, const std::string& t) { return read_number<uint32_t>(t, 1, 1024, s.hardware_queues); }},
    {"GPURUN_ERRORS", "warn", "what an error does beside being returned: return (nothing), warn, abort", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kErrors, s.errors); }},
    {"GPURUN_LOG", "off", "what the runtime says on stderr: off, error, warn, info, debug", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kLogLevels, s.log_level); }},
    {"GPURUN_REPORT", "none",
     "what ranks print at finalize: paths of messages, open loans and mappings, collectives, or all", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kReports, s.report); }},
    {"GPURUN_CHECK", "0", "1: the ranks of each collective compare their calls before it starts", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kSwitches, s.check); }},
    {"GPURUN_ALLREDUCE", "auto", "how all-reduces are made, by size: auto, direct, doubling, pieces", false,
     read_algorithms<&AlgorithmsAskedFor::allreduce>},
    {"GPURUN_REDUCE", "auto", "how reduces are made, by size: auto, direct, pieces", false,
     read_algorithms<&AlgorithmsAskedFor::reduce>},
    {"GPURUN_BCAST", "auto", "how broadcasts are made, by size: auto, direct, tree, pieces", false,
     read_algorithms<&AlgorithmsAskedFor::bcast>},
    {"GPURUN_FENCE", "auto", "how streams of two ranks are ordered: auto, counter, event", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kFences, s.fence); }},
    {"GPURUN_PATH", "auto", "forces the path of device messages: auto, direct, bounce, staged", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kPaths, s.path); }},
    {"GPURUN_EAGER_BYTES", "32768", "largest eager message from host memory with GPURUN_HOST", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 0, kMostEagerBytes, s.eager_bytes); }},
    {"GPURUN_DEVICE_EAGER_BYTES", "4096", "largest eager message from device memory, or on a stream", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 0, kMostDeviceEagerBytes, s.device_eager_bytes); }},
    {"GPURUN_MAIL_BYTES", "1M", "largest device message that goes through the receiver's mailbox; 0: none", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 0, kMostMailBytes, s.mail_bytes); }},
    {"GPURUN_KERNEL_COPY_BYTES", "16M", "largest device message that a kernel waits for and copies", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 0, size_t{1} << 40, s.kernel_copy_bytes); }},
    {"GPURUN_RELAY_CHUNK_BYTES", "8M", "largest chunk of a bounce or staged message", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 4096, kMostRelayChunkBytes, s.relay_chunk_bytes); }},
    {"GPURUN_SINGLE_COPY", "on", "whether large host messages are read from their sender: on, off", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kSwitch, s.single_copy); }},
    {"GPURUN_PROGRESS", "thread", "who makes progress on requests: a thread, or only calls", false,
     [](Settings& s, const std::string& t) { return read_choice(t, kProgress, s.progress_thread); }},
    {"GPURUN_SPIN_US", "", "microseconds that a blocked call spins before it sleeps", false,
     [](Settings& s, const std::string& t) -> Result<void> {
         int64_t spin_us = 0;
         GPURUN_TRY(read_number<int64_t>(t, 0, 1'000'000, spin_us));
         s.spin_us = spin_us;
         return {};
     }},
    {"GPURUN_LAUNCHER", "", "the gpurun program, which ranks that it did not start need", false,
     [](Settings& s, const std::string& t) {
         s.launcher = t;
         return Result<void>{};
     }},
    {"GPURUN_JOIN_TIMEOUT", "300", "seconds that ranks which gpurun did not start wait for the last one", false,
     [](Settings& s, const std::string& t) { return read_number(t, 1, 86'400, s.join_timeout_s); }},
    {"GPURUN_FABRIC", "auto", "libfabric's provider between nodes: auto, or a name such as tcp;ofi_rxm", false,
     [](Settings& s, const std::string& t) {
         s.fabric = t;
         return Result<void>{};
     }},
    {"GPURUN_FABRIC_INTERFACE", "", "where messages between nodes leave: an interface, an address, or a network", false,
     [](Settings& s, const std::string& t) {
         s.fabric_interface = t;
         return Result<void>{};
     }},
    {"GPURUN_NODE_ADDRESS", "", "by which other nodes reach this one; set by gpurun", false,
     [](Settings& s, const std::string& t) {
         s.node_address = t;
         return Result<void>{};
     }},
    {"GPURUN_MPS_CONTROL", "", "the program that gpurun starts for MPS, nvidia-cuda-mps-control", false,
     [](Settings& s, const std::string& t) {
         s.mps_control = t;
         return Result<void>{};
     }},
    {"GPURUN_TRACE_EVENTS", "1048576", "events of each rank that gpurun --trace has room for, 64 bytes each", false,
     [](Settings& s, const std::string& t) { return read_number<uint64_t>(t, 1, uint64_t{1} << 28, s.trace_events); }},
    {"GPURUN_TRACE_BYTES", "1G", "size of the file of gpurun --trace, at most, shared evenly by the ranks", false,
     [](Settings& s, const std::string& t) { return read_bytes(t, 1u << 16, size_t{1} << 40, s.trace_bytes); }},
    {"GPURUN_EMULATED_MEMORY", "16G", "memory of an emulated device, shared evenly by its ranks", false,
     [](Settings& s, const std::string& t) {
         return read_bytes(t, 1u << 20, size_t{1} << 40, s.emulated_memory_bytes);
     }},
    {"GPURUN_EMULATED_PEER_ACCESS", "all", "which emulated devices reach each other: all, none, or pairs 0-1,2-3",
     false, read_peer_access},
    {"GPURUN_EMULATED_SEED", "0", "seed of the emulated device's delays and reordering; 0 is none", false,
     [](Settings& s, const std::string& t) { return read_number<uint64_t>(t, 0, UINT64_MAX, s.emulated_seed); }},
    {"GPURUN_EMULATED_DELAY_US", "50", "longest delay of one emulated operation, with a seed", false,
     [](Settings& s, const std::string& t) { return read_number<int64_t>(t, 0, 1'000'000, s.emulated_delay_us); }},
    {"GPURUN_EMULATED_LOSE", "", "ordinal of an emulated device that has vanished, for tests", false,
     [](Settings& s, const std::string& t) -> Result<void> {
         int ordinal = 0;
         GPURUN_TRY(read_number(t, 0, INT_MAX, ordinal));
         s.emulated_lose = t;
         return {};
     }},
    {"GPURUN_EMULATED_ORDERED", "own", "whose memory gpurun_malloc_async() gives, for tests: own, other, managed",
     false, [](Settings& s, const std::string& t) { return read_choice(t, kOrderedMemory, s.emulated_ordered); }},
    {"GPURUN_EMULATED_NODES", "1", "ranks are treated as if they ran on so many nodes", false,
     [](Settings& s, const std::string& t) { return read_number<uint32_t>(t, 1, 256, s.emulated_nodes); }},
    {"GPURUN_EMULATED_CAPABILITIES", "all",
     "what emulated devices can do beyond the core: all, none, or a list of names", false, read_capabilities},
};

// All rows that can be used; the error of the first that cannot.
Result<void> read_rows(const std::function<const char*(const char*)>& lookup, Settings& settings) {
    Result<void> result;
    for (const SettingInfo& info : kTable) {
        const char* text = lookup(info.name);
        if (text == nullptr || *text == '\0')
            continue;
        if (auto read = info.read(settings, text); !read && result)
            result = error(Status::kSetting, "{}={}: {}", info.name, text, std::move(read).error().detail);
    }
    return result;
}

} // namespace

std::span<const SettingInfo> settings_table() { return kTable; }

Result<Settings> read_settings(const std::function<const char*(const char*)>& lookup) {
    Settings settings;
    GPURUN_TRY(read_rows(lookup, settings));
    if (settings.rank >= settings.size)
        return error(Status::kSetting, "GPURUN_RANK={} is not below GPURUN_SIZE={}: ranks count from 0 to size - 1",
                     settings.rank, settings.size);
    return settings;
}

Settings usable_settings(const std::function<const char*(const char*)>& lookup) {
    Settings settings;
    (void)read_rows(lookup, settings);
    return settings;
}

} // namespace gpurun::base
