// Reductions, each one kernel.
#include "device/cuda/launch.hpp"

#include <algorithm>
#include <optional>

namespace gpurun::device::cuda {

namespace {

// Of several buffers that are used together.
class Alignment {
  public:
    explicit Alignment(const void* first) : first_(reinterpret_cast<uintptr_t>(first)), all_(first_) {}

    void add(const void* buffer) {
        const auto address = reinterpret_cast<uintptr_t>(buffer);
        all_ |= address;
        differ_ |= address ^ first_;
    }
    uintptr_t all() const { return all_; } // by what all addresses can be divided, it can, too
    // How many bytes, of whole elements, there are before a boundary of 16 bytes in all of them; none if they differ.
    std::optional<uint32_t> head(size_t element, uint64_t bytes) const {
        const auto head = static_cast<uint32_t>((kWord - first_ % kWord) % kWord);
        const bool fits = differ_ % kWord == 0 && head % element == 0 && head <= bytes;
        return fits ? std::optional(head) : std::nullopt;
    }

  private:
    static constexpr uintptr_t kWord = 16;
    const uintptr_t first_;
    uintptr_t all_;
    uintptr_t differ_ = 0;
};

} // namespace

base::Result<void> CudaDevice::reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                               std::span<const void* const> operands, Stream stream) {
    static_assert(kReducedOfLaunch == base::kMostOperands);
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
    Alignment alignment(result);
    for (size_t i = 0; i < operands.size(); ++i) {
        arguments.operands[i] = operands[i];
        alignment.add(operands[i]);
    }
    const auto head = alignment.head(base::size_of_type(static_cast<int>(type)), arguments.bytes);
    arguments.aligned = head ? 1 : 0;
    arguments.head = head.value_or(0);
    return launch(kernels_.reduce[type], blocks_for(arguments.bytes, 16 * kReduceThreads, kMostReducingBlocks),
                  kReduceThreads, arguments, stream);
}

base::Result<FusedOperand> CudaDevice::arguments_of(const FusedReduction::Operand& operand) const {
    FusedOperand given{operand.buffer, nullptr, nullptr, operand.value, nullptr, operand.answer, 0};
    if (operand.is_mail()) {
        const Mail& mail = operand.mail;
        GPURUN_ASSIGN(const CUdeviceptr sent, device_address(mail.sent));
        GPURUN_ASSIGN(const CUdeviceptr taken, device_address(mail.taken));
        GPURUN_ASSIGN(given.times, device_address(mail.times));
        given = {mail.words, address(sent), address(taken), mail.value, given.times, nullptr, mail.mark};
    } else if (operand.is_peers()) {
        if (operand.ready != nullptr) {
            GPURUN_ASSIGN(const CUdeviceptr ready, device_address(operand.ready));
            given.sent = address(ready);
        }
        GPURUN_ASSIGN(const CUdeviceptr read, device_address(operand.read));
        given.taken = address(read);
        GPURUN_ASSIGN(given.times, device_address(operand.times));
    }
    return given;
}

namespace {

// In how many blocks, of how many threads.
struct Grid {
    unsigned blocks;
    unsigned threads;
};

Grid grid_of_mails(size_t largest, uint32_t most_blocks) {
    static_assert(kMailBytesOfBlock == 16 * kReduceThreads && kReduceThreads >= kFewestThreads);
    static_assert(kReducedBytesOfBlock == 16 * kFusedReduceThreads);
    const unsigned blocks = std::min(shared_mail_blocks(largest), most_blocks);
    const bool is_long = largest > size_t{blocks} * kMailBytesOfBlock;
    return {blocks, is_long ? kFusedReduceThreads : kReduceThreads};
}

// Of what is not changed, so that as many bytes as can be move together.
base::Type widest_type(uintptr_t aligned) {
    return aligned % 8 == 0   ? base::Type::kUint64
           : aligned % 4 == 0 ? base::Type::kUint32
           : aligned % 2 == 0 ? base::Type::kUint16
                              : base::Type::kUint8;
}

// Of what a block reduces of a lane: 16 bytes each.
unsigned reduced_lane_threads(size_t longest) {
    constexpr size_t kBytes = 16, kWarp = 32;
    const size_t units = (std::min(longest, kLaneBytes) + kBytes - 1) / kBytes;
    return static_cast<unsigned>((units + kWarp - 1) / kWarp * kWarp);
}

} // namespace

base::Result<void> CudaDevice::put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                              Stream stream) {
    const auto current = enter();
    FusedReduceArguments all; // what is not used is not read
    all.result = reduction.result;
    all.bytes = reduction.bytes();
    all.ticket = all.put_ticket = nullptr;
    all.gate = nullptr;
    all.timed = nullptr;
    all.has_mails = all.is_seen = 0;
    all.number_of_puts = static_cast<uint32_t>(puts.size());
    all.operands_given = static_cast<uint32_t>(reduction.operands.size());
    all.combined = static_cast<uint32_t>(std::count_if(reduction.operands.begin(), reduction.operands.end(),
                                                       [](const auto& each) { return each.is_combined(); }));
    all.op = static_cast<uint32_t>(reduction.reduction.op);
    all.divisor = reduction.reduction.divisor;
    all.own_operand = kReducedOfLaunch;
    size_t largest = all.bytes;
    for (size_t i = 0; i < puts.size(); ++i) {
        GPURUN_ASSIGN(all.puts[i], arguments_of(puts[i]));
        largest = std::max(largest, puts[i].mail.bytes);
        all.timed = all.puts[i].times != nullptr ? all.puts[i].times : all.timed;
        all.put_ticket = all.put_ticket == nullptr ? all.puts[i].ticket : all.put_ticket;
    }
    Alignment alignment(reduction.result);
    for (size_t i = 0; i < reduction.operands.size(); ++i) {
        const FusedReduction::Operand& operand = reduction.operands[i];
        GPURUN_ASSIGN(all.operands[i], arguments_of(operand));
        all.timed = all.operands[i].times != nullptr ? all.operands[i].times : all.timed;
        if (operand.is_mail()) {
            all.has_mails = 1;
            all.ticket = all.ticket == nullptr ? operand.mail.ticket : all.ticket;
            continue;
        }
        for (const void* const each : {operand.buffer, static_cast<const void*>(operand.answer)})
            if (each != nullptr)
                alignment.add(each);
        if (!operand.is_peers()) {
            all.own_operand = operand.is_combined() ? static_cast<uint32_t>(i) : all.own_operand;
            continue;
        }
        all.is_seen = 1;
        all.ticket = all.ticket == nullptr ? operand.ticket : all.ticket;
        if (operand.ready != nullptr) {
            all.gate = operand.gate;
            all.gate_value = operand.value;
        }
    }
    GPURUN_TRY(arguments_of(reduction.signals, all.signals, all.number_of_signals));
    GPURUN_TRY(arguments_of(reduction.awaits, all.awaits, all.number_of_awaits));
    const bool moves_only = all.combined == 1 && all.divisor == 0;
    const base::Type type = moves_only ? widest_type(alignment.all() | all.bytes) : reduction.reduction.type;
    const auto head = alignment.head(base::size_of_type(static_cast<int>(type)), all.bytes);
    all.aligned = head && (*head == 0 || all.has_mails == 0) ? 1 : 0;
    all.head = all.aligned != 0 ? *head : 0;
    const Grid grid = all.has_mails != 0
                          ? grid_of_mails(largest, reduction.blocks)
                          : Grid{blocks_for(largest, kReducedBytesOfBlock, reduction.blocks), kFusedReduceThreads};
    return launch(kernels_.fused_reduce[static_cast<size_t>(type)], grid.blocks, grid.threads, all, stream);
}

base::Result<void> CudaDevice::reduce_in_graph(const GraphReduction& reduction, Stream stream) {
    constexpr size_t kThreadsOfLane = kLaneBytes / 16;
    static_assert(kGraphReduceThreads % kThreadsOfLane == 0);
    const auto current = enter();
    GraphReduceArguments all; // what is not used is not read
    all.result = reduction.result;
    all.bytes = reduction.bytes();
    all.number_of_puts = static_cast<uint32_t>(reduction.puts.size());
    all.operands_given = static_cast<uint32_t>(reduction.operands.size());
    all.own_operand = kMetInGraph;
    all.is_logged = 0;
    all.op = static_cast<uint32_t>(reduction.reduction.op);
    all.divisor = reduction.reduction.divisor;
    size_t longest = all.bytes;
    for (size_t i = 0; i < reduction.puts.size(); ++i) {
        const Channel& channel = reduction.puts[i].channel;
        GPURUN_ASSIGN(all.puts[i], logged_arguments(reduction.puts[i]));
        all.is_logged |= channel.log != nullptr ? 1 : 0;
        longest = std::max(longest, channel.bytes);
    }
    uintptr_t addresses = reinterpret_cast<uintptr_t>(reduction.result);
    for (size_t i = 0; i < reduction.operands.size(); ++i) {
        const auto& [channel, buffer] = reduction.operands[i];
        if (channel == nullptr) {
            all.own_operand = static_cast<uint32_t>(i);
            all.operands[i].buffer = buffer;
            addresses |= reinterpret_cast<uintptr_t>(buffer);
            continue;
        }
        GPURUN_ASSIGN(all.operands[i].channel, arguments(*channel));
        GPURUN_ASSIGN(all.operands[i].log, log_arguments(*channel));
        all.is_logged |= channel->log != nullptr ? 1 : 0;
    }
    all.lanes = static_cast<uint32_t>(channel_lanes(longest));
    all.aligned = addresses % 16 == 0 ? 1 : 0;
    // A block for each lane, or for two or four, so that there are enough of them: then none waits before it puts.
    const uint32_t most = std::max(reduction.blocks, 1U);
    uint32_t beside = 1;
    while (beside < kGraphReduceThreads / kThreadsOfLane && all.lanes > beside * most)
        beside *= 2;
    const uint32_t blocks = std::min((all.lanes + beside - 1) / beside, most);
    const unsigned threads = beside * reduced_lane_threads(longest);
    return launch(kernels_.reduce_in_graph[static_cast<size_t>(reduction.reduction.type)], blocks, threads, all,
                  stream);
}

} // namespace gpurun::device::cuda
