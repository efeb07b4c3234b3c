// What gpurun runs on a GPU: mails, and copies between two edges. Compiled to an image of its own (meson.build),
// which Kernels loads.
//
// A mail's words are 16 bytes each: 4 of the message, the mark, 4 of the message, the mark. A GPU writes and reads each
// half of a word at once, so a half that carries the mark carries its bytes, however the words cross between devices.
#include "device/cuda/kernel_arguments.hpp"

using namespace gpurun::device::cuda;

namespace {

constexpr uint64_t kPoison = uint64_t{1} << 62; // platform::kPoison's upper bit: the counter's writer has died

struct Word {
    uint32_t low, low_mark, high, high_mark;
};

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

// Whether this thread is to say that the whole grid is done. The ticket counts blocks, and wraps to 0 by itself.
// `fence`: what the grid has written is seen before whatever that thread writes.
__device__ bool is_last(uint32_t* ticket, bool fence) {
    __syncthreads();
    if (threadIdx.x != 0)
        return false;
    if (gridDim.x > 1) {
        __threadfence();
        if (atomicInc(ticket, gridDim.x - 1) != gridDim.x - 1)
            return false;
    }
    if (fence)
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

__device__ bool is_gone(const uint64_t* sent, uint64_t value) {
    const uint64_t now = load_counter(sent);
    return (now & kPoison) != 0 && (now & ~(kPoison | 1)) < value;
}

// False if the words will never come.
__device__ bool await_word(const TakeMailArguments& mail, uint64_t index, Word& word) {
    constexpr unsigned kLooksPerCounter = 1024; // the counter is in host memory
    for (unsigned looks = 1;; ++looks) {
        word = load_word(mail.words, index);
        if (word.low_mark == mail.mark && word.high_mark == mail.mark)
            return true;
        if (looks % kLooksPerCounter != 0)
            continue;
        if (is_gone(mail.sent, mail.value))
            return false;
    }
}

__device__ uint64_t first_index() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ uint64_t all_threads() { return uint64_t{gridDim.x} * blockDim.x; }

// `bytes` by the `threads` threads of which this is number `index`.
__device__ void copy_bytes(void* destination, const void* source, uint64_t bytes, uint64_t index, uint64_t threads) {
    constexpr unsigned kInFlight = 4; // loads of a thread at a time
    uint64_t words = 0;
    if ((reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source)) % sizeof(uint4) == 0) {
        words = bytes / sizeof(uint4);
        const auto* from = static_cast<const uint4*>(source);
        auto* to = static_cast<uint4*>(destination);
        uint64_t i = index;
        for (; i + (kInFlight - 1) * threads < words; i += kInFlight * threads) {
            uint4 loaded[kInFlight];
#pragma unroll
            for (unsigned k = 0; k < kInFlight; ++k)
                loaded[k] = from[i + k * threads];
#pragma unroll
            for (unsigned k = 0; k < kInFlight; ++k)
                to[i + k * threads] = loaded[k];
        }
        for (; i < words; i += threads)
            to[i] = from[i];
    }
    for (uint64_t i = words * sizeof(uint4) + index; i < bytes; i += threads)
        static_cast<unsigned char*>(destination)[i] = static_cast<const unsigned char*>(source)[i];
}

} // namespace

extern "C" __global__ void __launch_bounds__(kMailThreads) gpurun_put_mail(const PutMailArguments mail) {
    for (uint64_t i = first_index(); 8 * i < mail.bytes; i += all_threads()) {
        const uint64_t bytes = load_bytes(mail.source + 8 * i, mail.bytes - 8 * i);
        store_word(mail.words, i,
                   {static_cast<uint32_t>(bytes), mail.mark, static_cast<uint32_t>(bytes >> 32), mail.mark});
    }
    if (is_last(mail.ticket, true))
        store_counter(mail.sent, mail.value);
}

extern "C" __global__ void __launch_bounds__(kMailThreads) gpurun_take_mail(const TakeMailArguments mail) {
    for (uint64_t i = first_index(); 8 * i < mail.bytes; i += all_threads()) {
        Word word;
        if (!await_word(mail, i, word))
            break;
        store_bytes(mail.destination + 8 * i, mail.bytes - 8 * i, word.low | static_cast<uint64_t>(word.high) << 32);
    }
    if (is_last(mail.ticket, mail.seen != 0))
        store_counter(mail.taken, mail.value);
}

extern "C" __global__ void gpurun_watch_counter(const WatchCounterArguments watch) {
    while (load_counter(watch.counter) < watch.value) {
    }
}

extern "C" __global__ void __launch_bounds__(kCopyThreads) gpurun_copy_fenced(const FencedCopyArguments copy) {
    if (copy.before != nullptr) {
        // One looks at the counter, which is in host memory: reads of many would hold up who writes it.
        if (threadIdx.x == 0 && blockIdx.x == 0) {
            while (load_counter(copy.before) < copy.value) {
            }
            store_gate(copy.gate, copy.value);
        } else if (threadIdx.x == 0) {
            while (load_gate(copy.gate) < copy.value) {
            }
        }
        __syncthreads();
    }
    copy_bytes(copy.destination, copy.source, copy.bytes, first_index(), all_threads());
    if (is_last(copy.ticket, true))
        store_counter(copy.after, copy.value);
}
