// Reductions on a GPU: a kernel for each type. Compiled to an image of its own (meson.build), which Kernels loads.
//
// The buffers are read in words of 16 bytes, by single bytes where one of them is not aligned, and in the last word.
#include "base/arithmetic.hpp"
#include "device/cuda/kernel_words.cuh"

#include <utility>

using namespace gpurun::base;
using namespace gpurun::device::cuda;

namespace {

constexpr unsigned kWordBytes = sizeof(uint4);

template <typename Element>
union Elements {
    static constexpr unsigned kNumber = kWordBytes / sizeof(Element);

    __device__ Elements() : word{0, 0, 0, 0} {}

    uint4 word;
    unsigned char bytes[kWordBytes];
    Element each[kNumber];
};

template <typename Element>
__device__ Elements<Element> load_elements(const void* from, uint64_t at, unsigned bytes, bool aligned) {
    Elements<Element> loaded;
    if (aligned && bytes == kWordBytes) {
        loaded.word = static_cast<const uint4*>(from)[at];
        return loaded;
    }
#pragma unroll 1
    for (unsigned i = 0; i < bytes; ++i)
        loaded.bytes[i] = static_cast<const unsigned char*>(from)[kWordBytes * at + i];
    return loaded;
}

template <typename Element>
__device__ void store_elements(void* to, uint64_t at, unsigned bytes, bool aligned, const Elements<Element>& stored) {
    if (aligned && bytes == kWordBytes) {
        static_cast<uint4*>(to)[at] = stored.word;
        return;
    }
#pragma unroll 1
    for (unsigned i = 0; i < bytes; ++i)
        static_cast<unsigned char*>(to)[kWordBytes * at + i] = stored.bytes[i];
}

template <Op kOp, Type kType>
constexpr bool kIsMeant = kOp != Op::kAverage&& has_meaning(kOp, kType);

template <Type kType>
struct Word16 {
    using Element = typename TypeOf<kType>::Element;
    static constexpr unsigned kNumber = Elements<Element>::kNumber;

    typename TypeOf<kType>::Value values[kNumber];

    __device__ void load(const ReduceArguments& arguments, unsigned operand, uint64_t at, unsigned bytes) {
        const auto word = load_elements<Element>(arguments.operands[operand], at, bytes, arguments.aligned != 0);
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            values[i] = value_of(word.each[i]);
    }
    __device__ void store(const ReduceArguments& arguments, uint64_t at, unsigned bytes) const {
        Elements<Element> word;
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            word.each[i] = element_of<Element>(values[i]);
        store_elements(arguments.result, at, bytes, arguments.aligned != 0, word);
    }
    template <Op kOp>
    __device__ void combine_if_asked(uint32_t op, const Word16& with) {
        if constexpr (kIsMeant<kOp, kType>)
            if (op == static_cast<uint32_t>(kOp))
#pragma unroll
                for (unsigned i = 0; i < kNumber; ++i)
                    values[i] = combined<kOp>(values[i], with.values[i]);
    }
    // All threads take the same branch.
    template <size_t... kNumbers>
    __device__ void combine(uint32_t op, const Word16& with, std::index_sequence<kNumbers...>) {
        (combine_if_asked<static_cast<Op>(kNumbers)>(op, with), ...);
    }
    __device__ void divide(uint32_t divisor) {
        if constexpr (kIsMeant<Op::kSum, kType>)
            if (divisor != 0)
                for (unsigned i = 0; i < kNumber; ++i)
                    values[i] = divided(values[i], divisor);
    }
};

template <Type kType>
__device__ void reduce(const ReduceArguments& arguments) {
    let_next_start();
    await_predecessors();
    const uint64_t words = (arguments.bytes + kWordBytes - 1) / kWordBytes;
    const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t at = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < words; at += threads) {
        const uint64_t left = arguments.bytes - kWordBytes * at;
        const unsigned bytes = left < kWordBytes ? static_cast<unsigned>(left) : kWordBytes;
        Word16<kType> result;
        result.load(arguments, 0, at, bytes);
        for (unsigned operand = 1; operand < arguments.operands_given; ++operand) {
            Word16<kType> next;
            next.load(arguments, operand, at, bytes);
            result.combine(arguments.op, next, std::make_index_sequence<kOps>());
        }
        result.divide(arguments.divisor);
        result.store(arguments, at, bytes);
    }
}

} // namespace

#define GPURUN_REDUCE(number)                                                                                          \
    extern "C" __global__ void __launch_bounds__(kReduceThreads)                                                       \
        gpurun_reduce_##number(const __grid_constant__ ReduceArguments arguments) {                                    \
        reduce<static_cast<Type>(number)>(arguments);                                                                  \
    }
// By the numbers of the types (base/datatype.hpp).
GPURUN_REDUCE(1)
GPURUN_REDUCE(3)
GPURUN_REDUCE(4)
GPURUN_REDUCE(5)
GPURUN_REDUCE(6)
GPURUN_REDUCE(7)
GPURUN_REDUCE(8)
GPURUN_REDUCE(9)
GPURUN_REDUCE(10)
GPURUN_REDUCE(11)
GPURUN_REDUCE(12)
GPURUN_REDUCE(13)
GPURUN_REDUCE(14)
GPURUN_REDUCE(15)
GPURUN_REDUCE(16)
GPURUN_REDUCE(17)
GPURUN_REDUCE(18)
GPURUN_REDUCE(19)
GPURUN_REDUCE(20)
GPURUN_REDUCE(21)
GPURUN_REDUCE(22)
