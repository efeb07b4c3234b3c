#include "devices.hpp"

#include "base/format.hpp"

namespace gpurun::launcher {

namespace {

std::vector<Device> emulate(size_t count) {
    std::vector<Device> devices;
    for (size_t i = 0; i < count; ++i)
        devices.push_back({base::format("emulated:{}/{}", i, count), "", "", i, ""});
    return devices;
}

} // namespace

base::Result<DeviceList> list_devices(const DeviceChoice& choice, size_t emulated,
                                      const std::vector<platform::Gpu>& gpus, const std::string& absence) {
    DeviceList list;
    if (choice.kind == DeviceKind::kEmulated || (gpus.empty() && choice.kind == DeviceKind::kAuto)) {
        list.devices = emulate(choice.count.value_or(emulated));
        if (!choice.given)
            list.notice =
                base::format("no GPU, so {} {} emulated (--device=emulated asks for that): {}",
                             list.devices.size() == 1 ? "1 device" : base::format("{} devices", list.devices.size()),
                             list.devices.size() == 1 ? "is" : "are", absence);
        return list;
    }
    if (gpus.empty())
        return base::error(base::Status::kArgument, "no GPU for --device=cuda: {}", absence);
    for (const platform::Gpu& gpu : gpus) {
        const size_t number = list.devices.size();
        // Records of machines may lack UUIDs.
        const std::string setting = base::format("cuda:{}", gpu.uuid.empty() ? std::to_string(number) : gpu.uuid);
        list.devices.push_back({setting, gpu.bus_id, gpu.uuid, number, gpu.parent, gpu.compute_major});
    }
    return list;
}

std::string count_devices(const std::vector<Device>& devices, size_t number) {
    const bool emulated = !devices.empty() && devices[0].bus_id.empty();
    return base::format("{} {}{}", number, emulated ? "emulated device" : "GPU", number == 1 ? "" : "s");
}

} // namespace gpurun::launcher
