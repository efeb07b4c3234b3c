#include "device/cuda/selection.hpp"

#include "base/format.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

namespace gpurun::device::cuda {

namespace {

constexpr std::string_view kPrefix = "cuda:";

base::Result<int> device_count(const Driver& driver) {
    int count = 0;
    GPURUN_TRY(driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
    return count;
}

base::Error not_there(const std::string& selector, int count) {
    return base::error(base::Status::kDevice,
                       "{} is not there: CUDA shows this process {} device{} (nvidia-smi -L lists the machine's; "
                       "CUDA_VISIBLE_DEVICES may hide some)",
                       selector, count, count == 1 ? "" : "s");
}

} // namespace

base::Result<Uuid> device_uuid(const Driver& driver, CUdevice device) {
    CUuuid raw{};
    GPURUN_TRY(driver.check(driver.cuDeviceGetUuid(&raw, device), "cuDeviceGetUuid"));
    Uuid uuid{};
    static_assert(sizeof(raw.bytes) == sizeof(uuid));
    std::memcpy(uuid.data(), raw.bytes, uuid.size());
    return uuid;
}

base::Result<std::optional<CUdevice>> find_device(const Driver& driver, const Uuid& uuid) {
    GPURUN_ASSIGN(const int count, device_count(driver));
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        CUdevice device{};
        GPURUN_TRY(driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
        GPURUN_ASSIGN(const Uuid candidate, device_uuid(driver, device));
        if (candidate == uuid)
            return std::optional<CUdevice>(device);
    }
    return std::optional<CUdevice>();
}

base::Result<CUdevice> select_device(const Driver& driver, const std::string& selector, uint32_t auto_device) {
    GPURUN_ASSIGN(const int count, device_count(driver));
    if (selector == "auto" && count > 0) {
        CUdevice device{};
        const int ordinal = static_cast<int>(auto_device % static_cast<uint32_t>(count));
        GPURUN_TRY(driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
        return device;
    }
    std::string_view name = selector == "auto" ? "cuda:0" : std::string_view(selector);
    if (!name.starts_with(kPrefix))
        return base::error(base::Status::kSetting, "{} names no CUDA device; use cuda:UUID or cuda:ORDINAL", selector);
    name.remove_prefix(kPrefix.size());

    if (const auto uuid = parse_uuid(name)) {
        GPURUN_ASSIGN(const auto found, find_device(driver, *uuid));
        if (!found)
            return not_there(selector, count);
        return *found;
    }
    int ordinal = -1;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
    if (failed != std::errc() || end != name.data() + name.size() || ordinal < 0)
        return base::error(base::Status::kSetting,
                           "{} names no CUDA device; use cuda:UUID (as nvidia-smi -L prints it) or cuda:ORDINAL",
                           selector);
    if (ordinal >= count)
        return not_there(selector, count);
    CUdevice device{};
    GPURUN_TRY(driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
    return device;
}

} // namespace gpurun::device::cuda
