// Opens this process's part of an emulated device.
#include "base/format.hpp"
#include "device/backend.hpp"
#include "device/emulated/emulated_device.hpp"

#include <charconv>
#include <optional>

namespace gpurun::device::emulated {

using base::Status;

namespace {

constexpr uint32_t kMostDevices = 1024;
// Programs enqueue by calls of gpurun only, of another thread perhaps.
constexpr int64_t kShortestEnqueueNs = 2000;

// Two processes on the same ordinal agree; no CUDA device has such a number.
std::array<uint8_t, 16> make_uuid(uint32_t ordinal) {
    std::array<uint8_t, 16> uuid = {'g', 'p', 'u', 'r', 'u', 'n', '-', 'e', 'm', 'u'};
    for (size_t i = 0; i < 4; ++i)
        uuid[12 + i] = static_cast<uint8_t>(ordinal >> (24 - 8 * i));
    return uuid;
}

// As nvidia-smi prints it, with EMU for GPU.
std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
    std::string text = "EMU";
    for (size_t i = 0; i < uuid.size(); ++i) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10)
            text += '-';
        text += base::format("{:02x}", uuid[i]);
    }
    return text;
}

base::Result<CapabilitySet> read_capabilities(const Options& options) {
    auto read = device::read_capabilities(options.emulated_capabilities);
    if (!read)
        return base::error(Status::kSetting, "GPURUN_EMULATED_CAPABILITIES={}: {}", options.emulated_capabilities,
                           read.error().detail);
    const auto has = [&](Capability capability) { return (*read)[static_cast<size_t>(capability)]; };
    const bool elsewhere = options.emulated_ordered == Placement::kElsewhere;
    if (options.emulated_ordered != Placement::kDevice && !has(Capability::kOrderedMemory))
        return base::error(Status::kSetting,
                           "GPURUN_EMULATED_ORDERED needs the capability ordered-memory, which is not "
                           "in GPURUN_EMULATED_CAPABILITIES");
    if (elsewhere && !has(Capability::kOtherDevices))
        return base::error(Status::kSetting,
                           "GPURUN_EMULATED_ORDERED=other needs the capability other-devices, which is "
                           "not in GPURUN_EMULATED_CAPABILITIES");
    return read;
}

base::Result<std::unique_ptr<Device>> open_numbered(const Options& options, uint32_t ordinal, uint32_t count) {
    if (ordinal >= count)
        return base::error(Status::kDevice, "emulated device {} is not there: there are {}, counted from 0", ordinal,
                           count);
    if (options.emulated_lose == std::to_string(ordinal))
        return base::error(Status::kDevice, "emulated device {} is not there: GPURUN_EMULATED_LOSE={} took it away",
                           ordinal, options.emulated_lose);
    GPURUN_ASSIGN(Reach reach, Reach::parse(options.emulated_peer_access, count));
    GPURUN_ASSIGN(const CapabilitySet capabilities, read_capabilities(options));
    GPURUN_ASSIGN(std::unique_ptr<Memory> memory,
                  Memory::create(options.emulated_memory_bytes, options.emulated_ordered));
    Info info;
    info.identity = Identity{Kind::kEmulated, ordinal, make_uuid(ordinal)};
    info.memory_bytes = memory->capacity();
    info.shortest_enqueue_ns = kShortestEnqueueNs;
    info.name = base::format("emulated device {} of {}", ordinal, count);
    info.uuid = uuid_text(info.identity.uuid);
    return std::unique_ptr<Device>(std::make_unique<EmulatedDevice>(std::move(info), capabilities, count,
                                                                    std::move(reach), std::move(memory), options));
}

std::optional<uint32_t> read_number(std::string_view text) {
    uint32_t number = 0;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || stop != text.data() + text.size())
        return std::nullopt;
    return number;
}

base::Result<std::unique_ptr<Device>> open(const Options& options, std::string_view which) {
    if (which.empty())
        return open_numbered(options, 0, 1);
    const size_t slash = which.find('/');
    if (slash != std::string_view::npos) {
        const auto ordinal = read_number(which.substr(0, slash));
        const auto count = read_number(which.substr(slash + 1));
        if (ordinal && count && *count >= 1 && *count <= kMostDevices)
            return open_numbered(options, *ordinal, *count);
    }
    return base::error(Status::kSetting, "GPURUN_DEVICE={}: must be emulated:ORDINAL/COUNT, with a count from 1 to {}",
                       options.selector, kMostDevices);
}

} // namespace

extern const Backend kBackend{"emulated", "emulated:ORDINAL/COUNT", [] { return true; }, open};

} // namespace gpurun::device::emulated
