// Chooses the device: reads the selector, and hands over to the implementation that it names.
#include "device/open.hpp"

#include "base/format.hpp"
#include "device/backend.hpp"

#include <array>
#include <string>

namespace gpurun::device {

// GPURUN_DEVICE_BACKENDS is GPURUN_BACKEND(name) for each (meson.build).
#define GPURUN_BACKEND(name)                                                                                           \
    namespace name {                                                                                                   \
    extern const Backend kBackend;                                                                                     \
    }
GPURUN_DEVICE_BACKENDS
#undef GPURUN_BACKEND

namespace {

#define GPURUN_BACKEND(name) &name::kBackend,
constexpr std::array kBackends = {GPURUN_DEVICE_BACKENDS};
#undef GPURUN_BACKEND

} // namespace

base::Result<std::unique_ptr<Device>> open_device(const Options& options) {
    const std::string_view selector = options.selector;
    std::string forms = "auto";
    for (const Backend* each : kBackends) {
        const std::string prefix = std::string(each->name) + ":";
        if (selector.starts_with(prefix) && selector.size() > prefix.size())
            return each->open(options, selector.substr(prefix.size()));
        if (selector == "auto" && each->present())
            return each->open(options, {});
        forms += std::string(", ") + each->selectors;
    }
    return base::error(base::Status::kSetting, "GPURUN_DEVICE={}: must be one of {}", selector, forms);
}

} // namespace gpurun::device
