// The kernels that move small messages, as short as they can be: what gpurun's own (runtime/device/cuda/kernels.cu) do
// that these need not is what those pay for.
//
// A word is 16 bytes: 4 of the message, a mark, 4 of the message, the mark. A line is 128 bytes, 120 of the message and
// a mark of 8, stored by 8 threads of a warp at once: only where the link keeps those together, as NVLink does.
#pragma once

#include "limits.hpp"

namespace limits {

// A message through a mailbox. Its mark is an argument, or, with `turns`, counted there: arguments of graphs stay.
struct Mail {
    unsigned char* data;
    unsigned char* mailbox;
    uint64_t* turns; // device memory, one for each block; or null
    uint64_t* over;
    uint64_t* done; // host memory that is told `value` by a kernel of one block; or null
    uint64_t value;
    uint64_t bytes;
    uint32_t mark;
    uint32_t clears; // the taker removes the marks, so that they need not change
};

constexpr unsigned kMailsOfLaunch = 32;
struct Mails {
    Mail mails[kMailsOfLaunch];
};

namespace {

constexpr uint64_t kKernelNs = static_cast<uint64_t>(kKernelSeconds * 1e9);
constexpr unsigned kWholeWarp = ~0u;
constexpr unsigned kMostThreads = 1024;

__device__ uint64_t global_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

__device__ uint64_t load_host(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ void store_host(uint64_t* word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ uint64_t load_turn(const uint64_t* turn) {
    uint64_t value;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(value) : "l"(turn) : "memory");
    return value;
}

__device__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ void await_predecessors() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ bool is_late(uint64_t& first, uint64_t* over) {
    const uint64_t now = global_ns();
    if (first == 0)
        first = now;
    if (load_host(over) != 0)
        return true;
    if (now - first < kKernelNs)
        return false;
    store_host(over, 1);
    return true;
}

constexpr unsigned kLooksPerClock = 1024; // `over` is in host memory

// False if it will not come.
template <typename Come>
__device__ bool await(uint64_t* over, const Come& come) {
    uint64_t first = 0;
    for (unsigned looks = 1; !come(); ++looks)
        if (looks % kLooksPerClock == 0 && is_late(first, over))
            return false;
    return true;
}

// The same by all threads of a warp, which `come` agrees by.
template <typename Come>
__device__ bool await_by_warp(uint64_t* over, const Come& come) {
    uint64_t first = 0;
    for (unsigned looks = 1; !come(); ++looks)
        if (looks % kLooksPerClock == 0 && __any_sync(kWholeWarp, is_late(first, over)) != 0)
            return false;
    return true;
}

struct MarkedWord {
    uint32_t low, low_mark, high, high_mark;
};

__device__ void store_word(unsigned char* where, uint64_t bytes, uint32_t mark) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(where), "r"(static_cast<uint32_t>(bytes)),
                 "r"(mark), "r"(static_cast<uint32_t>(bytes >> 32)), "r"(mark)
                 : "memory");
}

__device__ MarkedWord load_word(const unsigned char* where) {
    MarkedWord word;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.low), "=r"(word.low_mark), "=r"(word.high), "=r"(word.high_mark)
                 : "l"(where)
                 : "memory");
    return word;
}

__device__ uint64_t& eight_bytes(unsigned char* data, uint64_t at) { return *reinterpret_cast<uint64_t*>(data + at); }

__device__ uint64_t first_index() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ uint64_t all_threads() { return uint64_t{gridDim.x} * blockDim.x; }

__device__ uint64_t mark_of(const Mail& mail) {
    return mail.turns != nullptr ? load_turn(mail.turns + blockIdx.x) + 1 : mail.mark;
}

__device__ unsigned char* place_of(const Mail& mail, uint64_t mark) { return mail.mailbox + mark % 2 * kPlaceBytes; }

__device__ void end_mail(const Mail& mail, uint64_t mark) {
    if (mail.turns == nullptr && mail.done == nullptr)
        return;
    __syncthreads(); // all have read the turn, and written what they have to
    if (threadIdx.x != 0)
        return;
    if (mail.turns != nullptr)
        mail.turns[blockIdx.x] = mark;
    if (mail.done != nullptr) {
        __threadfence_system();
        store_host(mail.done, mail.value);
    }
}

// As many words a thread as kWords, a grid's width apart.
template <unsigned kWords>
__device__ void put_words(const Mail& mail) {
    const uint64_t mark = mark_of(mail);
    unsigned char* const place = place_of(mail, mark);
    let_next_start();
    await_predecessors();
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k) {
        const uint64_t i = first_index() + k * all_threads();
        if (8 * i < mail.bytes)
            store_word(place + 16 * i, eight_bytes(mail.data, 8 * i), static_cast<uint32_t>(mark));
    }
    end_mail(mail, mark);
}

template <unsigned kWords>
__device__ void take_words(const Mail& mail) {
    const uint64_t mark = mark_of(mail);
    unsigned char* const place = place_of(mail, mark);
    MarkedWord words[kWords] = {};
    const bool came = await(mail.over, [&] {
        bool all_there = true;
#pragma unroll
        for (unsigned k = 0; k < kWords; ++k) {
            const uint64_t i = first_index() + k * all_threads();
            if (8 * i >= mail.bytes)
                continue;
            words[k] = load_word(place + 16 * i);
            all_there &=
                words[k].low_mark == static_cast<uint32_t>(mark) && words[k].high_mark == static_cast<uint32_t>(mark);
        }
        return all_there;
    });
    let_next_start();
    await_predecessors();
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k) {
        const uint64_t i = first_index() + k * all_threads();
        if (!came || 8 * i >= mail.bytes)
            continue;
        eight_bytes(mail.data, 8 * i) = words[k].low | static_cast<uint64_t>(words[k].high) << 32;
        if (mail.clears != 0)
            store_word(place + 16 * i, 0, 0);
    }
    end_mail(mail, mark);
}

template <unsigned kWords>
__global__ void __launch_bounds__(kMostThreads) put(const Mail mail) {
    put_words<kWords>(mail);
}

template <unsigned kWords>
__global__ void __launch_bounds__(kMostThreads) take(const Mail mail) {
    take_words<kWords>(mail);
}

} // namespace

} // namespace limits
