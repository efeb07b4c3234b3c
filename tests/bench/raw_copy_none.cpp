// A build without CUDA.

#include "raw_copy.hpp"

namespace gpurun::bench {

std::unique_ptr<RawCopy> make_cuda_copy(int, int, size_t) { return nullptr; }

std::string driver_version() { return {}; }

} // namespace gpurun::bench
