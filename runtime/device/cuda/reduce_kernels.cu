// Reductions on a GPU: two kernels for each type. Compiled to an image of its own (meson.build), which Kernels loads.
#include "device/cuda/reduced_words.cuh"

using namespace gpurun::device::cuda;

namespace {

// False if it will never come.
template <Type kType>
__device__ bool load_operand(Word16<kType>& into, const FusedOperand& from, uint64_t at, unsigned bytes, bool aligned) {
    if (from.mark != 0)
        return into.load_as_it_comes(bytes, [&](auto& words) { return await_words(from, 2 * at, words); });
    into.load(from.words, at, bytes, aligned);
    return true;
}

__device__ const void* behind(const void* buffer, uint64_t bytes) {
    return static_cast<const unsigned char*>(buffer) + bytes;
}
__device__ void* behind(void* buffer, uint64_t bytes) { return static_cast<unsigned char*>(buffer) + bytes; }

template <Type kType>
__device__ void reduce(const ReduceArguments& arguments) {
    await_predecessors();
    let_next_start();
    const Blocks blocks = whole_grid();
    const uint64_t apart = arguments.aligned != 0 ? arguments.head : arguments.bytes;
    const uint64_t in_words = arguments.bytes - apart;
    if (apart != 0)
        reduce_apart<kType>(
            apart, arguments.operands_given, arguments.op, arguments.divisor, blocks,
            [&](unsigned operand) { return arguments.operands[operand]; },
            [&](const Word16<kType>& result, uint64_t first, uint64_t distance, uint64_t count) {
                result.store_apart(arguments.result, first, distance, count);
            });
    for (uint64_t at = blocks.first_index(); kWordBytes * at < in_words; at += blocks.all_threads()) {
        const unsigned bytes = bytes_at(at, in_words);
        Word16<kType> result;
        result.load(behind(arguments.operands[0], apart), at, bytes, true);
        for (unsigned operand = 1; operand < arguments.operands_given; ++operand) {
            Word16<kType> next;
            next.load(behind(arguments.operands[operand], apart), at, bytes, true);
            result.combine(arguments.op, next, std::make_index_sequence<kOps>());
        }
        result.divide(arguments.divisor);
        result.store(behind(arguments.result, apart), at, bytes, true);
    }
}

// A warp puts the words of a mail that it may replace by the result, in place: two for each 16 bytes of the result. Its
// threads put words that follow each other, of which a store to a peer takes several at once.
__device__ void put_words(const PutMailArguments& mail, Blocks blocks) {
    const unsigned lane = threadIdx.x % warpSize;
    for (uint64_t first = blocks.first_index() - lane; kWordBytes * first < mail.bytes; first += blocks.all_threads())
        for (uint64_t i = 2 * first + lane; i < 2 * (first + warpSize) && 8 * i < mail.bytes; i += warpSize)
            store_word(mail.words, i, word_of(load_bytes(mail.source + 8 * i, mail.bytes - 8 * i), mail.mark));
    __syncwarp();
}

// That all have been put is told by the last thread of a block, while the words are on their way: the others go on.
__device__ void put_all(const FusedReduceArguments& all, Blocks blocks, uint64_t began) {
    if (all.number_of_puts == 0)
        return;
    for (unsigned i = 0; i < all.number_of_puts; ++i)
        put_words(all.puts[i], blocks);
    if (!is_last(blocks, all.put_ticket, true, blockDim.x - 1))
        return;
    for (unsigned i = 0; i < all.number_of_puts; ++i) {
        store_counter(all.puts[i].sent, all.puts[i].value);
        store_times(all.puts[i].times, began, began);
    }
}

template <Type kType>
__device__ void store_result(const FusedReduceArguments& all, const Word16<kType>& result, uint64_t at,
                             unsigned bytes) {
    result.store(behind(all.result, all.head), at, bytes, all.aligned != 0);
    for (unsigned operand = 0; operand < all.operands_given; ++operand)
        if (all.operands[operand].answer != nullptr)
            result.store(behind(all.operands[operand].answer, all.head), at, bytes, all.aligned != 0);
}

// `moving`: when the first words had come. This rank's own operand is loaded before the mails are awaited.
template <Type kType>
__device__ void reduce_as_it_comes(const FusedReduceArguments& all, Blocks blocks, uint64_t& moving) {
    using Element = typename TypeOf<kType>::Element;
    const bool aligned = all.aligned != 0;
    for (uint64_t at = blocks.first_index(); kWordBytes * at < all.bytes; at += blocks.all_threads()) {
        const unsigned bytes = bytes_at(at, all.bytes);
        Elements<Element> own;
        if (all.own_operand < all.combined)
            own = load_elements<Element>(all.operands[all.own_operand].words, at, bytes, aligned);
        Word16<kType> result;
        bool come = true;
        for (unsigned operand = 0; come && operand < all.combined; ++operand) {
            Word16<kType> next;
            if (operand == all.own_operand)
                next.set(own);
            else
                come = load_operand(next, all.operands[operand], at, bytes, aligned);
            if (operand == 0)
                result = next;
            else
                result.combine(all.op, next, std::make_index_sequence<kOps>());
        }
        if (!come)
            return;
        if (at == blocks.first_index())
            moving = clock_for(all.timed);
        result.divide(all.divisor);
        store_result(all, result, at, bytes);
    }
}

// Several words of a thread at a time, since what is loaded from peers comes late. `at` is the first of them.
template <Type kType, unsigned kAtOnce>
__device__ void reduce_words(const FusedReduceArguments& all, uint64_t at, uint64_t threads) {
    using Loaded = Elements<typename TypeOf<kType>::Element>;
    Word16<kType> result[kAtOnce];
    for (unsigned operand = 0; operand < all.combined; ++operand) {
        const auto* const from = static_cast<const uint4*>(behind(all.operands[operand].words, all.head));
        Loaded loaded[kAtOnce];
#pragma unroll
        for (unsigned i = 0; i < kAtOnce; ++i)
            loaded[i].word = from[at + i * threads];
#pragma unroll
        for (unsigned i = 0; i < kAtOnce; ++i) {
            if (operand == 0) {
                result[i].set(loaded[i]);
                continue;
            }
            Word16<kType> next;
            next.set(loaded[i]);
            result[i].combine(all.op, next, std::make_index_sequence<kOps>());
        }
    }
#pragma unroll
    for (unsigned i = 0; i < kAtOnce; ++i) {
        result[i].divide(all.divisor);
        store_result(all, result[i], at + i * threads, kWordBytes);
    }
}

// Of buffers alone, which are ready.
template <Type kType>
__device__ void reduce_buffers(const FusedReduceArguments& all, Blocks blocks) {
    constexpr unsigned kAtOnce = 2;
    const uint64_t threads = blocks.all_threads();
    const uint64_t apart = all.aligned != 0 ? all.head : all.bytes;
    const uint64_t in_words = all.bytes - apart;
    if (apart != 0)
        reduce_apart<kType>(
            apart, all.combined, all.op, all.divisor, blocks,
            [&](unsigned operand) { return all.operands[operand].words; },
            [&](const Word16<kType>& result, uint64_t first, uint64_t distance, uint64_t count) {
                result.store_apart(all.result, first, distance, count);
                for (unsigned operand = 0; operand < all.operands_given; ++operand)
                    if (all.operands[operand].answer != nullptr)
                        result.store_apart(all.operands[operand].answer, first, distance, count);
            });
    uint64_t at = blocks.first_index();
    for (; kWordBytes * (at + (kAtOnce - 1) * threads + 1) <= in_words; at += kAtOnce * threads)
        reduce_words<kType, kAtOnce>(all, at, threads);
    for (; kWordBytes * at < in_words; at += threads) {
        const unsigned bytes = bytes_at(at, in_words);
        Word16<kType> result;
        result.load(behind(all.operands[0].words, all.head), at, bytes, true);
        for (unsigned operand = 1; operand < all.combined; ++operand) {
            Word16<kType> next;
            next.load(behind(all.operands[operand].words, all.head), at, bytes, true);
            result.combine(all.op, next, std::make_index_sequence<kOps>());
        }
        result.divide(all.divisor);
        store_result(all, result, at, bytes);
    }
}

// One block looks at the counters, as in gpurun_copy_fenced: a thread at each, since a look at host memory takes long.
__device__ void await_buffers(const FusedReduceArguments& all, Blocks blocks) {
    if (all.gate == nullptr)
        return;
    if (blocks.index == 0) {
        if (threadIdx.x < all.operands_given) {
            const FusedOperand& operand = all.operands[threadIdx.x];
            while (operand.mark == 0 && operand.sent != nullptr && load_counter(operand.sent) < operand.value) {
            }
        }
        __syncthreads();
        if (threadIdx.x == 0)
            store_gate(all.gate, all.gate_value);
        return;
    }
    if (threadIdx.x == 0) {
        while (load_gate(all.gate) < all.gate_value) {
        }
    }
    __syncthreads();
}

// The last thread of all tells that the operands have been read.
__device__ void tell_of_reduction(const FusedReduceArguments& all, Blocks blocks, uint64_t began, uint64_t moving) {
    if (all.has_mails == 0 && all.is_seen == 0)
        return; // nobody wants to know
    if (!is_last(blocks, all.ticket, all.is_seen != 0))
        return;
    for (unsigned i = 0; i < all.operands_given; ++i)
        if (all.operands[i].taken != nullptr) {
            store_counter(all.operands[i].taken, all.operands[i].value);
            store_times(all.operands[i].times, began, moving);
        }
}

template <Type kType>
__device__ void fused_reduce(const FusedReduceArguments& all) {
    const Blocks blocks = whole_grid();
    await_predecessors();
    const uint64_t began = clock_for(all.timed);
    uint64_t moving = began;
    if (blocks.index == 0 && threadIdx.x < all.number_of_signals)
        signal(all.signals[threadIdx.x]);
    put_all(all, blocks, began);
    await_buffers(all, blocks);
    if (all.has_mails != 0) {
        reduce_as_it_comes<kType>(all, blocks, moving);
    } else {
        moving = clock_for(all.timed);
        reduce_buffers<kType>(all, blocks);
    }
    if (all.number_of_awaits == 0) // not earlier: the thread that tells of what was put comes last
        let_next_start_together();
    tell_of_reduction(all, blocks, began, moving);
    if (blocks.index == 0 && threadIdx.x < all.number_of_awaits)
        await(all.awaits[threadIdx.x]);
}

} // namespace

#define GPURUN_REDUCE(number)                                                                                          \
    extern "C" __global__ void __launch_bounds__(kReduceThreads)                                                       \
        gpurun_reduce_##number(const __grid_constant__ ReduceArguments arguments) {                                    \
        reduce<static_cast<Type>(number)>(arguments);                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(kFusedReduceThreads)                                                  \
        gpurun_fused_reduce_##number(const __grid_constant__ FusedReduceArguments arguments) {                         \
        fused_reduce<static_cast<Type>(number)>(arguments);                                                            \
    }
GPURUN_FOR_EACH_REDUCED_TYPE(GPURUN_REDUCE)
