// Reductions, each one kernel.
#include "device/cuda/launch.hpp"

namespace gpurun::device::cuda {

base::Result<void> CudaDevice::reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                               std::span<const void* const> operands, Stream stream) {
    static_assert(kReducedOfLaunch == base::kMostOperands);
    constexpr uint32_t kMostBlocks = 1024; // enough to keep every processor busy
    if (count == 0)
        return {};
    const auto current = enter();
    const auto type = static_cast<size_t>(reduction.type);
    ReduceArguments arguments; // operands that are not given are not read
    arguments.result = result;
    arguments.bytes = count * base::size_of_type(static_cast<int>(type));
    arguments.operands_given = static_cast<uint32_t>(operands.size());
    arguments.op = static_cast<uint32_t>(reduction.op);
    arguments.divisor = reduction.divisor;
    uintptr_t all = reinterpret_cast<uintptr_t>(result);
    for (size_t i = 0; i < operands.size(); ++i) {
        arguments.operands[i] = operands[i];
        all |= reinterpret_cast<uintptr_t>(operands[i]);
    }
    arguments.aligned = all % 16 == 0 ? 1 : 0;
    return launch(kernels_.reduce[type], blocks_for(arguments.bytes, 16 * kReduceThreads, kMostBlocks), kReduceThreads,
                  arguments, stream);
}

} // namespace gpurun::device::cuda
