// What kernels of reductions read, combine and write: words of 16 bytes, by single elements where one of the buffers is
// not aligned to 16 bytes, and in the last word; or as many elements that lie apart.
#pragma once

#include "base/arithmetic.hpp"
#include "device/cuda/kernel_words.cuh"

#include <utility>

namespace {

using namespace gpurun::base;

constexpr unsigned kWordBytes = sizeof(uint4);

template <typename Element>
union Elements {
    static constexpr unsigned kNumber = kWordBytes / sizeof(Element);

    __device__ Elements() : word{0, 0, 0, 0} {}

    uint4 word;
    unsigned char bytes[kWordBytes];
    Element each[kNumber];
};

// Element number `at` of a buffer of any alignment.
template <typename Element>
__device__ Element load_element(const void* from, uint64_t at) {
    if (reinterpret_cast<uintptr_t>(from) % alignof(Element) == 0)
        return static_cast<const Element*>(from)[at];
    Element loaded;
    memcpy(&loaded, static_cast<const unsigned char*>(from) + sizeof(Element) * at, sizeof(Element));
    return loaded;
}

template <typename Element>
__device__ void store_element(void* to, uint64_t at, const Element& stored) {
    if (reinterpret_cast<uintptr_t>(to) % alignof(Element) == 0)
        static_cast<Element*>(to)[at] = stored;
    else
        memcpy(static_cast<unsigned char*>(to) + sizeof(Element) * at, &stored, sizeof(Element));
}

template <typename Element>
__device__ Elements<Element> load_elements(const void* from, uint64_t at, unsigned bytes, bool aligned) {
    Elements<Element> loaded;
    if (aligned && bytes == kWordBytes) {
        loaded.word = static_cast<const uint4*>(from)[at];
        return loaded;
    }
#pragma unroll 1
    for (unsigned i = 0; i < bytes / sizeof(Element); ++i)
        loaded.each[i] = load_element<Element>(from, Elements<Element>::kNumber * at + i);
    return loaded;
}

template <typename Element>
__device__ void store_elements(void* to, uint64_t at, unsigned bytes, bool aligned, const Elements<Element>& stored) {
    if (aligned && bytes == kWordBytes) {
        static_cast<uint4*>(to)[at] = stored.word;
        return;
    }
#pragma unroll 1
    for (unsigned i = 0; i < bytes / sizeof(Element); ++i)
        store_element(to, Elements<Element>::kNumber * at + i, stored.each[i]);
}

template <Op kOp, Type kType>
constexpr bool kIsMeant = kOp != Op::kAverage&& has_meaning(kOp, kType);

template <Type kType>
struct Word16 {
    using Element = typename TypeOf<kType>::Element;
    static constexpr unsigned kNumber = Elements<Element>::kNumber;

    typename TypeOf<kType>::Value values[kNumber];

    __device__ void set(const Elements<Element>& word) {
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            values[i] = value_of(word.each[i]);
    }
    __device__ void load(const void* from, uint64_t at, unsigned bytes, bool aligned) {
        set(load_elements<Element>(from, at, bytes, aligned));
    }
    // What comes in words that carry their mark: `await` has a word, or two in a row, or is false if they never come.
    template <typename Await>
    __device__ bool load_as_it_comes(unsigned bytes, const Await& await) {
        Elements<Element> come;
        if (bytes > 8) {
            Word words[2];
            if (!await(words))
                return false;
            come.word = {words[0].low, words[0].high, words[1].low, words[1].high};
        } else {
            Word words[1];
            if (!await(words))
                return false;
            come.word = {words[0].low, words[0].high, 0, 0};
        }
        set(come);
        return true;
    }
    __device__ void store(void* to, uint64_t at, unsigned bytes, bool aligned) const {
        Elements<Element> word;
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            word.each[i] = element_of<Element>(values[i]);
        store_elements(to, at, bytes, aligned, word);
    }
    // Elements `first`, `first + distance` and so on of `count`: threads whose first ones follow each other read what
    // lies side by side, whatever the alignment is.
    __device__ void load_apart(const void* from, uint64_t first, uint64_t distance, uint64_t count) {
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            if (first + i * distance < count)
                values[i] = value_of(load_element<Element>(from, first + i * distance));
    }
    __device__ void store_apart(void* to, uint64_t first, uint64_t distance, uint64_t count) const {
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            if (first + i * distance < count)
                store_element(to, first + i * distance, element_of<Element>(values[i]));
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
    // By a power of two with the same result, but a division takes ten times what a multiplication does.
    __device__ void divide(uint32_t divisor) {
        using Value = typename TypeOf<kType>::Value;
        if constexpr (kIsMeant<Op::kSum, kType>) {
            if (divisor == 0)
                return;
            if constexpr (std::is_floating_point_v<Value>)
                if ((divisor & (divisor - 1)) == 0) {
                    const Value part = Value(1) / static_cast<Value>(divisor);
#pragma unroll
                    for (unsigned i = 0; i < kNumber; ++i)
                        values[i] *= part;
                    return;
                }
#pragma unroll
            for (unsigned i = 0; i < kNumber; ++i)
                values[i] = divided(values[i], divisor);
        }
    }
};

// Of buffers that are not all aligned: `buffer` has each of the operands, and `store(result, first, distance, count)`
// gets what a thread has made of its elements.
template <Type kType, typename Buffer, typename Store>
__device__ void reduce_apart(uint64_t bytes, unsigned operands, uint32_t op, uint32_t divisor, Blocks blocks,
                             const Buffer& buffer, const Store& store) {
    using Word = Word16<kType>;
    const uint64_t count = bytes / sizeof(typename Word::Element);
    const uint64_t threads = blocks.all_threads();
    for (uint64_t first = blocks.first_index(); first < count; first += Word::kNumber * threads) {
        Word result;
        result.load_apart(buffer(0), first, threads, count);
        for (unsigned operand = 1; operand < operands; ++operand) {
            Word next;
            next.load_apart(buffer(operand), first, threads, count);
            result.combine(op, next, std::make_index_sequence<kOps>());
        }
        result.divide(divisor);
        store(result, first, threads, count);
    }
}

// The bytes of one of a thread's words, the last of which may be shorter.
__device__ unsigned bytes_at(uint64_t at, uint64_t all) {
    const uint64_t left = all - kWordBytes * at;
    return left < kWordBytes ? static_cast<unsigned>(left) : kWordBytes;
}

} // namespace

// The kernels of every type that is reduced, by its number (base/datatype.hpp).
// clang-format off
#define GPURUN_FOR_EACH_REDUCED_TYPE(KERNELS) \
    KERNELS(1) KERNELS(3) KERNELS(4) KERNELS(5) KERNELS(6) KERNELS(7) KERNELS(8) KERNELS(9) KERNELS(10) \
    KERNELS(11) KERNELS(12) KERNELS(13) KERNELS(14) KERNELS(15) KERNELS(16) KERNELS(17) KERNELS(18) \
    KERNELS(19) KERNELS(20) KERNELS(21) KERNELS(22)
// clang-format on
