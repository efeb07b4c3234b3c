// Parts of the kernels: words that carry their mark, loads and stores that peers see, agreement between blocks.
//
// A word is 16 bytes: 4 of the message, the mark, 4 of the message, the mark. A GPU writes and reads each half of a
// word at once, so a half that carries the mark carries its bytes, however the words cross between devices.
#pragma once

#include "device/cuda/kernel_arguments.hpp"

namespace {

constexpr uint64_t kPoison = uint64_t{1} << 62; // platform::kPoison's upper bit: the counter's writer has died

struct Word {
    uint32_t low, low_mark, high, high_mark;
};

__device__ Word word_of(uint64_t bytes, uint32_t mark) {
    return {static_cast<uint32_t>(bytes), mark, static_cast<uint32_t>(bytes >> 32), mark};
}
__device__ uint64_t bytes_of(Word word) { return word.low | static_cast<uint64_t>(word.high) << 32; }

__device__ void store_word(void* words, uint64_t index, Word word) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(static_cast<uint4*>(words) + index),
                 "r"(word.low), "r"(word.low_mark), "r"(word.high), "r"(word.high_mark)
                 : "memory");
}

__device__ Word load_word(const void* words, uint64_t index) {
    Word word;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.low), "=r"(word.low_mark), "=r"(word.high), "=r"(word.high_mark)
                 : "l"(static_cast<const uint4*>(words) + index)
                 : "memory");
    return word;
}

__device__ uint64_t load_counter(const uint64_t* counter) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
    return value;
}

__device__ uint64_t load_gate(const uint64_t* gate) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(gate) : "memory");
    return value;
}

__device__ void store_gate(uint64_t* gate, uint64_t value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(gate), "l"(value) : "memory");
}

__device__ void store_counter(uint64_t* counter, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
}

// What the stream has done before is seen by whoever sees it.
__device__ void signal(const gpurun::device::cuda::CounterArguments& counter) {
    __threadfence_system();
    store_counter(counter.counter, counter.value);
}

__device__ void await(const gpurun::device::cuda::CounterArguments& counter) {
    while (load_counter(counter.counter) < counter.value) {
    }
}

__device__ bool is_gone(const uint64_t* sent, uint64_t value) {
    const uint64_t now = load_counter(sent);
    return (now & kPoison) != 0 && (now & ~(kPoison | 1)) < value;
}

// Looks for `kNumber` words of a mail in a row until all have come. False if they never will.
template <unsigned kNumber, typename Mail>
__device__ bool await_words(const Mail& mail, uint64_t index, Word (&words)[kNumber]) {
    constexpr unsigned kLooksPerCounter = 1024; // the counter is in host memory
    for (unsigned looks = 1;; ++looks) {
        bool come = true;
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            words[i] = load_word(mail.words, index + i);
#pragma unroll
        for (unsigned i = 0; i < kNumber; ++i)
            come = come && words[i].low_mark == mail.mark && words[i].high_mark == mail.mark;
        if (come)
            return true;
        if (looks % kLooksPerCounter == 0 && is_gone(mail.sent, mail.value))
            return false;
    }
}

// Where the device allows it, our kernels are launched while what is before them in the stream, or the graph, still
// runs, so that their own start costs no time (launch.hpp). Until await_predecessors() a kernel touches only what no
// kernel before it does: words of its own message, counters. All of them call it, whatever happens: what follows them
// must not come before what they follow.
__device__ void await_predecessors() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel of the stream be launched, once each block has called this, or has ended: one thread of a block
// is enough. A kernel that is launched takes room on the device. So in a stream of the program's, this one must wait
// for nothing of a peer any more, and nor must what comes before it: kernels that wait there call
// let_next_start_together(). (Else a peer's kernel may find no room, for which this one waits. Four ranks on a GPU hung
// in rows of scans of 4 MiB.) Best called before stores, which it comes behind. Kernels of many threads are not
// launched early (launch.hpp). In graphs: begin_in_graph().
__device__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The same once all threads of the block have come here.
__device__ void let_next_start_together() {
    __syncthreads();
    let_next_start();
}

// What the device's clock reads, where somebody wants to know, and this is a thread that may have to say it.
__device__ uint64_t clock_for(const uint64_t* times) {
    uint64_t now = 0;
    if (times != nullptr && (threadIdx.x == 0 || threadIdx.x == blockDim.x - 1))
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    return now;
}

// Said at the end, all at once, behind what somebody waits for: on the way there, a store to host memory is one more
// that a fence has to wait for. By the last block, which tells of itself. `began` may be 0: it is not said.
__device__ void store_times(uint64_t* times, uint64_t began, uint64_t moving) {
    if (times == nullptr)
        return;
    if (began != 0)
        store_counter(times, began);
    store_counter(times + 1, moving);
    store_counter(times + 2, clock_for(times));
}

// Some blocks of a grid, that do one thing.
struct Blocks {
    unsigned index; // of this block among them
    unsigned number;

    __device__ uint64_t first_index() const { return uint64_t{index} * blockDim.x + threadIdx.x; }
    __device__ uint64_t all_threads() const { return uint64_t{number} * blockDim.x; }
};
__device__ Blocks whole_grid() { return {blockIdx.x, gridDim.x}; }

// Whether this thread is to say that all of the blocks are done. The ticket counts them, and wraps to 0 by itself.
// `fence`: what they have written is seen before whatever that thread writes. `teller`: which thread of a block it is,
// the first or the last.
__device__ bool is_last(Blocks blocks, uint32_t* ticket, bool fence, unsigned teller = 0) {
    __syncthreads();
    if (threadIdx.x != teller)
        return false;
    if (blocks.number > 1) {
        __threadfence();
        if (atomicInc(ticket, blocks.number - 1) != blocks.number - 1)
            return false;
    }
    if (fence)
        __threadfence_system();
    return true;
}

// The same for what this block has written, whatever the others do.
__device__ bool is_last_of_block() {
    __syncthreads();
    if (threadIdx.x != 0)
        return false;
    __threadfence_system();
    return true;
}

__device__ uint64_t load_bytes(const unsigned char* from, uint64_t left) {
    if (left >= 8 && reinterpret_cast<uintptr_t>(from) % 8 == 0)
        return *reinterpret_cast<const uint64_t*>(from);
    uint64_t value = 0;
    for (unsigned i = 0; i < 8 && i < left; ++i)
        value |= static_cast<uint64_t>(from[i]) << (8 * i);
    return value;
}

__device__ void store_bytes(unsigned char* to, uint64_t left, uint64_t value) {
    if (left >= 8 && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
        *reinterpret_cast<uint64_t*>(to) = value;
        return;
    }
    for (unsigned i = 0; i < 8 && i < left; ++i)
        to[i] = static_cast<unsigned char>(value >> (8 * i));
}

constexpr unsigned kCopiesInFlight = 4; // loads of a thread at a time

// Words of 16 bytes, both aligned.
__device__ void copy_words(uint4* to, const uint4* from, uint64_t words, uint64_t index, uint64_t threads) {
    uint64_t i = index;
    for (; i + (kCopiesInFlight - 1) * threads < words; i += kCopiesInFlight * threads) {
        uint4 loaded[kCopiesInFlight];
#pragma unroll
        for (unsigned k = 0; k < kCopiesInFlight; ++k)
            loaded[k] = from[i + k * threads];
#pragma unroll
        for (unsigned k = 0; k < kCopiesInFlight; ++k)
            to[i + k * threads] = loaded[k];
    }
    for (; i < words; i += threads)
        to[i] = from[i];
}

// The 16 bytes that begin `shift` bytes, fewer than 16, behind those of `low`, which `high` follows.
__device__ uint4 joined(const uint4& low, const uint4& high, unsigned shift) {
    unsigned a = low.x, b = low.y, c = low.z, d = low.w, e = high.x;
    if (shift / 4 == 1)
        a = low.y, b = low.z, c = low.w, d = high.x, e = high.y;
    else if (shift / 4 == 2)
        a = low.z, b = low.w, c = high.x, d = high.y, e = high.z;
    else if (shift / 4 == 3)
        a = low.w, b = high.x, c = high.y, d = high.z, e = high.w;
    const unsigned bits = 8 * (shift % 4);
    return {__funnelshift_r(a, b, bits), __funnelshift_r(b, c, bits), __funnelshift_r(c, d, bits),
            __funnelshift_r(d, e, bits)};
}

// Words whose source begins `shift` bytes behind aligned words, `from`, of which there is one more. A warp loads 32 of
// these, and each thread but the last joins its own and the next one's.
__device__ void copy_shifted(uint4* to, const uint4* from, uint64_t words, unsigned shift, uint64_t index,
                             uint64_t threads) {
    const unsigned lane = index % warpSize;
    const unsigned joins = warpSize - 1;
    const uint64_t step = threads / warpSize * joins;
    for (uint64_t first = index / warpSize * joins; first < words; first += kCopiesInFlight * step) {
        uint4 low[kCopiesInFlight];
#pragma unroll
        for (unsigned k = 0; k < kCopiesInFlight; ++k) {
            const uint64_t i = first + k * step + lane;
            low[k] = i <= words ? from[i] : uint4{};
        }
#pragma unroll
        for (unsigned k = 0; k < kCopiesInFlight; ++k) {
            constexpr unsigned kAll = ~0u;
            const uint4 high = {__shfl_down_sync(kAll, low[k].x, 1), __shfl_down_sync(kAll, low[k].y, 1),
                                __shfl_down_sync(kAll, low[k].z, 1), __shfl_down_sync(kAll, low[k].w, 1)};
            const uint64_t i = first + k * step + lane;
            if (lane < joins && i < words)
                to[i] = joined(low[k], high, shift);
        }
    }
}

// `bytes`, of any alignment, by the `threads` threads, whole warps, of which this is number `index`: in words of the
// destination, but for what is before the first and behind the last.
__device__ void copy_bytes(void* destination, const void* source, uint64_t bytes, uint64_t index, uint64_t threads) {
    constexpr uint64_t kWord = sizeof(uint4);
    auto* const to = static_cast<unsigned char*>(destination);
    const auto* const from = static_cast<const unsigned char*>(source);
    uint64_t head = (kWord - reinterpret_cast<uintptr_t>(to) % kWord) % kWord;
    const unsigned shift = (reinterpret_cast<uintptr_t>(from) + head) % kWord;
    if (shift > head) // else there would be a word before the source
        head += kWord;
    uint64_t words = 0;
    if (head >= bytes) {
        head = bytes;
    } else if (shift == 0) {
        words = (bytes - head) / kWord;
        copy_words(reinterpret_cast<uint4*>(to + head), reinterpret_cast<const uint4*>(from + head), words, index,
                   threads);
    } else {
        const uint64_t inside = (bytes - head + shift) / kWord; // words of the source
        words = inside == 0 ? 0 : inside - 1;
        copy_shifted(reinterpret_cast<uint4*>(to + head), reinterpret_cast<const uint4*>(from + head - shift), words,
                     shift, index, threads);
    }
    const uint64_t rest = bytes - kWord * words;
    for (uint64_t i = index; i < rest; i += threads) {
        const uint64_t at = i < head ? i : i + kWord * words;
        to[at] = from[at];
    }
}

} // namespace
