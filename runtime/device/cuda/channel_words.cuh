// Parts of the kernels of graphs' messages. All that is the same in every run stands in the arguments, the rest in
// memory, by the number of the run.
#pragma once

#include "device/cuda/kernel_words.cuh"

namespace {

using gpurun::device::cuda::ChannelArguments;
using gpurun::device::cuda::kBytesOfLane;
using gpurun::device::cuda::kFirstOfRun;
using gpurun::device::cuda::kLastOfRun;
using gpurun::device::cuda::kPlacesOfChannel;
using gpurun::device::cuda::kWordsOfRun;
using gpurun::device::cuda::RunLogArguments;

constexpr unsigned kLooksPerAlive = 1024; // it is in host memory

// Waits for what is before the kernel, and lets the next one start. So beside one that waits for a peer only the next
// one of its branch is on the device, which waits for its end. Called in the other order, that could be all kernels of
// a graph: two ranks on a GPU hung in graphs of 150 all-reduces. Not by kernels that wait with few threads for what a
// large one moves then, or reduces.
__device__ void begin_in_graph() {
    await_predecessors();
    let_next_start();
}

__device__ uint64_t load_turn(const uint64_t* turn) {
    uint64_t value;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(value) : "l"(turn) : "memory");
    return value;
}

// Never the mark of an earlier run in the same place, nor 0.
__device__ uint32_t mark_of(uint64_t turn) { return static_cast<uint32_t>(turn % 0xffffffff) + 1; }

__device__ void* place_of(const ChannelArguments& channel, uint64_t turn, uint32_t lane) {
    const uint64_t first = (turn % kPlacesOfChannel * channel.lanes + lane) * channel.lane_words;
    return static_cast<uint4*>(channel.places) + first;
}

__device__ uint64_t read_clock() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
    return now;
}

// By a thread of each block that waits: another block's end is told of again.
__device__ void tell_wait(const ChannelArguments& channel, uint64_t runs, uint64_t waited_ns, bool tells) {
    if (channel.wait == nullptr || !tells)
        return;
    store_counter(channel.wait + 2, waited_ns);
    store_counter(channel.wait, runs);
}

// `more` says whether to look again, for so many `runs` of the other side. False, and said so, if that has died first.
// What takes long is told, too: there is time for it. By the first thread, unless each one `tells`.
template <typename More>
__device__ bool wait_while(const ChannelArguments& channel, uint64_t runs, const More& more,
                           bool tells = threadIdx.x == 0) {
    uint64_t told_first = 0;
    bool came = true;
    for (unsigned looks = 1; more(); ++looks) {
        if (looks % kLooksPerAlive != 0)
            continue;
        const uint64_t now = read_clock();
        if (told_first == 0)
            told_first = now;
        tell_wait(channel, runs, now - told_first, tells);
        if ((load_counter(channel.alive) & kPoison) != 0 && more()) {
            store_counter(channel.cut, 1);
            came = false;
            break;
        }
    }
    if (told_first != 0)
        tell_wait(channel, 0, 0, tells);
    return came;
}

__device__ bool is_taken(const ChannelArguments& channel, uint32_t lane, uint64_t turns) {
    return load_turn(channel.taken + lane) >= turns;
}

__device__ bool await_taken(const ChannelArguments& channel, uint32_t lane, uint64_t turns,
                            bool tells = threadIdx.x == 0) {
    return wait_while(
        channel, turns, [&] { return !is_taken(channel, lane, turns); }, tells);
}

__device__ bool await_channel_word(const ChannelArguments& channel, uint64_t turn, uint32_t lane, uint64_t index,
                                   Word& word, bool tells = threadIdx.x == 0) {
    const void* const place = place_of(channel, turn, lane);
    const uint32_t mark = mark_of(turn);
    return wait_while(
        channel, turn + 1,
        [&] {
            word = load_word(place, index);
            return word.low_mark != mark || word.high_mark != mark;
        },
        tells);
}

// How many runs must have been taken before this one finds room.
__device__ uint64_t to_be_taken(uint64_t turn) { return turn < kPlacesOfChannel ? 0 : turn + 1 - kPlacesOfChannel; }

// Asked for by one thread, since a line that all threads want at once is given to one after the other. `too`: what else
// that thread has to do before the others go on.
template <typename Too>
__device__ uint64_t turn_of_block(const ChannelArguments& channel, uint32_t lane, const Too& too) {
    __shared__ uint64_t turn;
    if (threadIdx.x == 0) {
        turn = load_turn(channel.turns + lane);
        too(turn);
    }
    __syncthreads();
    return turn;
}

__device__ void tell_taken(const ChannelArguments& channel, uint32_t lane, uint64_t turn) {
    store_counter(channel.taken + lane, turn + 1);
    channel.turns[lane] = turn + 1;
}

// Of kernels whose runs nobody records.
struct NoLog {
    __device__ uint64_t clock() const { return 0; }
    __device__ void run(uint64_t, uint64_t, uint64_t) const {}
    static constexpr bool kRecords = false;
};

struct Log {
    const RunLogArguments& log;

    __device__ uint64_t clock() const { return clock_for(log.taken); }
    // By one thread, at the very end, as store_times() does. `run` is told by the first operation alone.
    __device__ void run(uint64_t run, uint64_t began, uint64_t moving) const {
        uint64_t at;
        if ((log.parts & kFirstOfRun) != 0) {
            at = atomicAdd(reinterpret_cast<unsigned long long*>(log.taken), 1);
            *log.place = at;
            if (at >= log.room)
                store_counter(log.lost, at + 1 - log.room); // another may pass it on the way: the host asks at the end
        } else {
            at = load_turn(log.place);
        }
        if (at >= log.room)
            return;
        uint64_t* const words = log.places + at * kWordsOfRun;
        if ((log.parts & kFirstOfRun) != 0) {
            store_counter(words, began);
            store_counter(words + 1, moving);
            store_counter(words + 3, run);
            store_counter(words + 4, log.name);
        }
        if ((log.parts & kLastOfRun) != 0)
            store_counter(words + 2, read_clock());
    }
    static constexpr bool kRecords = true;
};

// Of kernels for several channels, of each of which the host says whether somebody records its runs.
__device__ void log_run(const RunLogArguments& log, uint64_t run, uint64_t began, uint64_t moving) {
    if (log.taken != nullptr)
        Log{log}.run(run, began, moving);
}

} // namespace
