// Chooses the device: reads the selector, and hands over to the implementation that it names.
#include "device/open.hpp"

#include "base/format.hpp"
#include "device/emulated/open_emulated.hpp"

#ifdef GPURUN_WITH_CUDA
#include "device/cuda/open_cuda.hpp"
#endif

#include <charconv>
#include <optional>
#include <string_view>

namespace gpurun::device {

namespace {

constexpr uint32_t kMostEmulatedDevices = 1024;

#ifdef GPURUN_WITH_CUDA
bool cuda_there() { return cuda::cuda_present(); }
base::Result<std::unique_ptr<Device>> open_cuda_device(const Options& options) {
    auto opened = cuda::open_cuda(options);
    if (opened || opened.error().detail.find(options.selector) != std::string::npos)
        return opened;
    // What failed deep in the driver does not know which device it was asked for; the user must.
    base::Error error = std::move(opened).error();
    error.detail = base::format("{} cannot be used: {}", options.selector, error.detail);
    return error;
}
#else
bool cuda_there() { return false; }
base::Result<std::unique_ptr<Device>> open_cuda_device(const Options& options) {
    return base::error(base::Status::kDevice, "{} is not there: this gpurun was built without CUDA", options.selector);
}
#endif

std::optional<uint32_t> read_number(std::string_view text) {
    uint32_t number = 0;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || stop != text.data() + text.size())
        return std::nullopt;
    return number;
}

base::Result<std::unique_ptr<Device>> open_emulated_device(const Options& options, std::string_view which) {
    const size_t slash = which.find('/');
    if (slash != std::string_view::npos) {
        const auto ordinal = read_number(which.substr(0, slash));
        const auto count = read_number(which.substr(slash + 1));
        if (ordinal && count && *count >= 1 && *count <= kMostEmulatedDevices)
            return emulated::open_emulated(options, *ordinal, *count);
    }
    return base::error(base::Status::kSetting,
                       "GPURUN_DEVICE={}: must be emulated:ORDINAL/COUNT, with a count from 1 to {}", options.selector,
                       kMostEmulatedDevices);
}

} // namespace

base::Result<std::unique_ptr<Device>> open_device(const Options& options) {
    constexpr std::string_view kEmulatedPrefix = "emulated:";
    constexpr std::string_view kCudaPrefix = "cuda:";
    const std::string_view selector = options.selector;
    if (selector.starts_with(kEmulatedPrefix))
        return open_emulated_device(options, selector.substr(kEmulatedPrefix.size()));
    if (selector.starts_with(kCudaPrefix) && selector.size() > kCudaPrefix.size())
        return open_cuda_device(options);
    if (selector == "auto")
        return cuda_there() ? open_cuda_device(options) : emulated::open_emulated(options, 0, 1);
    return base::error(base::Status::kSetting,
                       "GPURUN_DEVICE={}: must be auto, cuda:UUID, cuda:ORDINAL or emulated:ORDINAL/COUNT", selector);
}

} // namespace gpurun::device
