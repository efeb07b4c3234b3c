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

base::Result<FusedOperand> CudaDevice::arguments_of(const FusedReduction::Operand& operand) const {
    const Mail& mail = operand.mail;
    if (mail.words == nullptr)
        return FusedOperand{operand.buffer, nullptr, nullptr, 0, nullptr, 0};
    GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
    GPURUN_ASSIGN(const CUdeviceptr taken, device_address(mail.taken));
    GPURUN_ASSIGN(uint64_t* const times, device_address(mail.times));
    return FusedOperand{mail.words, address(sent), address(taken), mail.value, times, mail.mark};
}

base::Result<void> CudaDevice::put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                              Stream stream) {
    static_assert(kMailBytesOfBlock == 16 * kReduceThreads && kReduceThreads >= kFewestThreads);
    const auto current = enter();
    FusedReduceArguments all; // what is not used is not read
    all.result = reduction.result;
    all.bytes = reduction.bytes();
    all.ticket = nullptr;
    all.timed = nullptr;
    all.number_of_puts = static_cast<uint32_t>(puts.size());
    all.operands_given = static_cast<uint32_t>(reduction.operands.size());
    all.op = static_cast<uint32_t>(reduction.reduction.op);
    all.divisor = reduction.reduction.divisor;
    size_t largest = all.bytes;
    for (size_t i = 0; i < puts.size(); ++i) {
        GPURUN_ASSIGN(all.puts[i], arguments_of(puts[i]));
        largest = std::max(largest, puts[i].mail.bytes);
        all.timed = all.puts[i].times != nullptr ? all.puts[i].times : all.timed;
    }
    uintptr_t addresses = reinterpret_cast<uintptr_t>(reduction.result);
    for (size_t i = 0; i < reduction.operands.size(); ++i) {
        const FusedReduction::Operand& operand = reduction.operands[i];
        GPURUN_ASSIGN(all.operands[i], arguments_of(operand));
        all.timed = all.operands[i].times != nullptr ? all.operands[i].times : all.timed;
        if (operand.mail.words == nullptr)
            addresses |= reinterpret_cast<uintptr_t>(operand.buffer);
        else if (all.ticket == nullptr)
            all.ticket = operand.mail.ticket;
    }
    all.aligned = addresses % 16 == 0 ? 1 : 0;
    const unsigned blocks = std::min(mail_blocks(largest), reduction.blocks);
    const bool is_long = largest > size_t{blocks} * kMailBytesOfBlock;
    return launch(kernels_.fused_reduce[static_cast<size_t>(reduction.reduction.type)], blocks,
                  is_long ? kFusedReduceThreads : kReduceThreads, all, stream);
}

} // namespace gpurun::device::cuda
