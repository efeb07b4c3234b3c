// In the place of open_cuda.cpp, in a build without CUDA.
#include "base/format.hpp"
#include "device/backend.hpp"

namespace gpurun::device::cuda {

static base::Result<std::unique_ptr<Device>> open(const Options& options, std::string_view) {
    return base::error(base::Status::kDevice, "{} is not there: this gpurun was built without CUDA", options.selector);
}

extern const Backend kBackend{"cuda", "cuda:UUID, cuda:ORDINAL", [] { return false; }, open};

} // namespace gpurun::device::cuda
