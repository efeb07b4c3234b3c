// What gpurun runs on a GPU: mails, copies between two edges, and messages of graphs. Compiled to an image of its own
// (meson.build), which Kernels loads.
#include "device/cuda/channel_kernels.cuh"
#include "device/cuda/kernel_words.cuh"

using namespace gpurun::device::cuda;

namespace {

__device__ void put_mail(const PutMailArguments& mail, Blocks blocks) {
    await_predecessors();
    let_next_start();
    const uint64_t began = clock_for(mail.times);
    for (uint64_t i = blocks.first_index(); 8 * i < mail.bytes; i += blocks.all_threads()) {
        const uint64_t bytes = load_bytes(mail.source + 8 * i, mail.bytes - 8 * i);
        store_word(mail.words, i, word_of(bytes, mail.mark));
    }
    if (is_last(blocks, mail.ticket, true)) {
        store_counter(mail.sent, mail.value);
        store_times(mail.times, began, began);
    }
}

__device__ void copy_beside(const CopyBesideArguments& copy, Blocks blocks) {
    await_predecessors();
    let_next_start();
    copy_bytes(copy.destination, copy.source, copy.bytes, blocks.first_index(), blocks.all_threads());
}

// What follows may start once the last words have come, before they are stored: behind stores that costs 0.6 us.
__device__ void take_mail(const TakeMailArguments& mail, Blocks blocks) {
    const uint64_t began = clock_for(mail.times);
    uint64_t moving = began;
    for (uint64_t first = blocks.first_index() - threadIdx.x; 8 * first < mail.bytes; first += blocks.all_threads()) {
        const uint64_t i = first + threadIdx.x;
        Word words[1];
        const bool came = 8 * i < mail.bytes && await_words(mail, i, words);
        await_predecessors();
        if (8 * (first + blocks.all_threads()) >= mail.bytes)
            let_next_start_together();
        moving = clock_for(mail.times);
        if (came)
            store_bytes(mail.destination + 8 * i, mail.bytes - 8 * i, bytes_of(words[0]));
    }
    await_predecessors(); // where there is nothing to take, too
    if (is_last(blocks, mail.ticket, mail.seen != 0)) {
        store_counter(mail.taken, mail.value);
        store_times(mail.times, began, moving);
    }
}

__device__ void copy_fenced(const FencedCopyArguments& copy, Blocks blocks) {
    const uint64_t began = clock_for(copy.times);
    if (copy.before != nullptr) {
        // One looks at the counter, which is in host memory: reads of many would hold up who writes it.
        if (threadIdx.x == 0 && blocks.index == 0) {
            while (load_counter(copy.before) < copy.value) {
            }
            store_gate(copy.gate, copy.value);
        } else if (threadIdx.x == 0) {
            while (load_gate(copy.gate) < copy.value) {
            }
        }
        __syncthreads();
    }
    await_predecessors();
    let_next_start();
    const uint64_t moving = clock_for(copy.times);
    copy_bytes(copy.destination, copy.source, copy.bytes, blocks.first_index(), blocks.all_threads());
    if (is_last(blocks, copy.ticket, true)) {
        store_counter(copy.after, copy.value);
        store_times(copy.times, copy.before != nullptr ? began : 0, moving);
    }
}

// The edges of an exchange that belong to none of its parts, a thread for each.
template <typename Arguments>
__device__ void keep_edges(const Arguments& all) {
    await_predecessors();
    if (threadIdx.x < all.number_of_signals)
        signal(all.edges[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < all.number_of_awaits)
        await(all.edges[all.number_of_signals + threadIdx.x]);
    let_next_start_together();
}

// What is put or signalled has the first blocks, so that it starts first: a peer may wait for it before it puts what is
// taken here.
template <typename Arguments>
__device__ void exchange(const Arguments& all) {
    if (blockIdx.x < all.first_blocks[0]) {
        keep_edges(all);
        return;
    }
    unsigned i = 0;
    while (i + 1 < all.number && blockIdx.x >= all.first_blocks[i + 1])
        ++i;
    const Blocks blocks{blockIdx.x - all.first_blocks[i], uint32_t{all.first_blocks[i + 1]} - all.first_blocks[i]};
    const unsigned first_pull = all.number_of_puts + all.number_of_copies;
    const unsigned first_take = first_pull + all.number_of_pulls;
    if (i < all.number_of_puts)
        put_mail(all.parts[i].put, blocks);
    else if (i < first_pull)
        copy_beside(all.parts[i].copy, blocks);
    else if (i < first_take)
        copy_fenced(all.parts[i].pull, blocks);
    else
        take_mail(all.parts[i].take, blocks);
}

// As many blocks of an exchange run on a processor at once as of the kernels for one part. Turing's has 1,024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kExchangeBlocksAtOnce = 2;
#else
constexpr int kExchangeBlocksAtOnce = 3;
#endif

} // namespace

extern "C" __global__ void __launch_bounds__(kMailThreads)
    gpurun_put_mail(const __grid_constant__ PutMailArguments mail) {
    put_mail(mail, whole_grid());
}

extern "C" __global__ void __launch_bounds__(kMailThreads)
    gpurun_take_mail(const __grid_constant__ TakeMailArguments mail) {
    take_mail(mail, whole_grid());
}

extern "C" __global__ void __launch_bounds__(kMailThreads, kExchangeBlocksAtOnce)
    gpurun_exchange(const __grid_constant__ AllExchanged all) {
    exchange(all);
}

extern "C" __global__ void __launch_bounds__(kMailThreads, kExchangeBlocksAtOnce)
    gpurun_exchange_few(const __grid_constant__ FewExchanged all) {
    exchange(all);
}

extern "C" __global__ void __launch_bounds__(kMailThreads)
    gpurun_put_mails(const __grid_constant__ PutMailsArguments batch) {
    const PutMailArguments& mail = batch.mails[blockIdx.x];
    const uint64_t from = uint64_t{8} * threadIdx.x;
    await_predecessors();
    let_next_start();
    const uint64_t began = clock_for(mail.times);
    if (from < mail.bytes) {
        const uint64_t bytes = load_bytes(mail.source + from, mail.bytes - from);
        store_word(mail.words, threadIdx.x, word_of(bytes, mail.mark));
    }
    if (is_last_of_block()) {
        store_counter(mail.sent, mail.value);
        store_times(mail.times, began, began);
    }
}

extern "C" __global__ void __launch_bounds__(kMailThreads)
    gpurun_take_mails(const __grid_constant__ TakeMailsArguments batch) {
    const TakeMailArguments& mail = batch.mails[blockIdx.x];
    const uint64_t to = uint64_t{8} * threadIdx.x;
    Word words[1];
    const uint64_t began = clock_for(mail.times);
    const bool came = to < mail.bytes && await_words(mail, threadIdx.x, words);
    await_predecessors();
    let_next_start(); // threads that have nothing to take at once: a taker's stream gets nothing more while it waits
    const uint64_t moving = clock_for(mail.times);
    if (came)
        store_bytes(mail.destination + to, mail.bytes - to, bytes_of(words[0]));
    if (is_last_of_block()) {
        store_counter(mail.taken, mail.value);
        store_times(mail.times, began, moving);
    }
}

extern "C" __global__ void gpurun_watch_counter(const WatchCounterArguments watch) {
    while (load_counter(watch.counter) < watch.value) {
    }
    await_predecessors();
    let_next_start();
}

extern "C" __global__ void __launch_bounds__(kCopyThreads)
    gpurun_copy_fenced(const __grid_constant__ FencedCopyArguments copy) {
    copy_fenced(copy, whole_grid());
}

extern "C" __global__ void gpurun_read_clock(const ReadClockArguments clock) {
    await_predecessors();
    let_next_start();
    for (uint64_t round = 1; round <= clock.rounds; ++round) {
        uint64_t asked;
        do
            asked = load_counter(clock.asked);
        while (asked < round);
        if (asked == kNoMoreRounds)
            return;
        store_counter(clock.time, clock_for(clock.time));
    }
}

extern "C" __global__ void gpurun_write_time(const WriteTimeArguments time) {
    await_predecessors();
    let_next_start();
    store_counter(time.where, clock_for(time.where));
}
