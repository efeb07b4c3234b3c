// Messages of graphs. A block makes a lane; all that is the same in every run stands in the arguments, the rest in
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
using gpurun::device::cuda::Logged;
using gpurun::device::cuda::PullThroughChannelArguments;
using gpurun::device::cuda::PutInChannelArguments;
using gpurun::device::cuda::RunLogArguments;
using gpurun::device::cuda::TakeFromChannelArguments;

constexpr unsigned kLooksPerAlive = 1024; // it is in host memory

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
__device__ void tell_wait(const ChannelArguments& channel, uint64_t runs, uint64_t waited_ns) {
    if (channel.wait == nullptr || threadIdx.x != 0)
        return;
    store_counter(channel.wait + 2, waited_ns);
    store_counter(channel.wait, runs);
}

// `more` says whether to look again, for so many `runs` of the other side. False, and said so, if that has died first.
// What takes long is told, too: there is time for it.
template <typename More>
__device__ bool wait_while(const ChannelArguments& channel, uint64_t runs, const More& more) {
    uint64_t told_first = 0;
    bool came = true;
    for (unsigned looks = 1; more(); ++looks) {
        if (looks % kLooksPerAlive != 0)
            continue;
        const uint64_t now = read_clock();
        if (told_first == 0)
            told_first = now;
        tell_wait(channel, runs, now - told_first);
        if ((load_counter(channel.alive) & kPoison) != 0 && more()) {
            store_counter(channel.cut, 1);
            came = false;
            break;
        }
    }
    if (told_first != 0)
        tell_wait(channel, 0, 0);
    return came;
}

__device__ bool is_taken(const ChannelArguments& channel, uint32_t lane, uint64_t turns) {
    return load_turn(channel.taken + lane) >= turns;
}

__device__ bool await_taken(const ChannelArguments& channel, uint32_t lane, uint64_t turns) {
    return wait_while(channel, turns, [&] { return !is_taken(channel, lane, turns); });
}

__device__ bool await_channel_word(const ChannelArguments& channel, uint64_t turn, uint32_t lane, uint64_t index,
                                   Word& word) {
    const void* const place = place_of(channel, turn, lane);
    const uint32_t mark = mark_of(turn);
    return wait_while(channel, turn + 1, [&] {
        word = load_word(place, index);
        return word.low_mark != mark || word.high_mark != mark;
    });
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
            store_counter(words + 2, clock());
    }
    static constexpr bool kRecords = true;
};

template <typename RunLog>
__device__ void put_in_channel(const PutInChannelArguments& put, const RunLog& log) {
    const ChannelArguments& channel = put.channel;
    const uint32_t lane = blockIdx.x;
    __shared__ bool had_room; // most runs have: the peer has said so long ago
    const uint64_t first = lane * kBytesOfLane + 8 * threadIdx.x;
    const uint64_t turn =
        turn_of_block(channel, lane, [&](uint64_t now) { had_room = is_taken(channel, lane, to_be_taken(now)); });
    await_predecessors();
    const uint64_t began = log.clock();
    const uint64_t bytes = first < channel.bytes ? load_bytes(put.source + first, channel.bytes - first) : 0;
    if (channel.bytes == 0)
        __threadfence_system(); // a signal says that what came before it is there
    const bool room = had_room || await_taken(channel, lane, to_be_taken(turn));
    const uint64_t moving = log.clock();
    let_next_start();
    if (room && (first < channel.bytes || first == 0))
        store_word(place_of(channel, turn, lane), threadIdx.x, word_of(bytes, mark_of(turn)));
    __syncthreads();
    if (threadIdx.x == 0) {
        channel.turns[lane] = turn + 1;
        if (lane == 0) // which tells of itself
            log.run(turn, began, moving);
    }
}

template <typename RunLog>
__device__ void await_channel_taken(const ChannelArguments& channel, const RunLog& log) {
    await_predecessors(); // one of them has counted the run
    const uint64_t began = log.clock();
    uint64_t turn = 0;
    if (threadIdx.x < channel.lanes) {
        turn = load_turn(channel.turns + threadIdx.x);
        await_taken(channel, threadIdx.x, turn);
    }
    if (!RunLog::kRecords)
        return;
    __syncwarp();
    if (threadIdx.x == 0)
        log.run(turn, began, log.clock());
}

template <typename RunLog>
__device__ void take_from_channel(const TakeFromChannelArguments& take, const RunLog& log) {
    const ChannelArguments& channel = take.channel;
    const uint32_t lane = blockIdx.x;
    const uint64_t first = lane * kBytesOfLane + 8 * threadIdx.x;
    const uint64_t turn = turn_of_block(channel, lane, [](uint64_t) {});
    Word word;
    const uint64_t began = log.clock();
    const bool came = (first < take.bytes || first == 0) && // of no bytes, too, the first word is waited for
                      await_channel_word(channel, turn, lane, threadIdx.x, word);
    let_next_start();
    await_predecessors();
    const uint64_t moving = log.clock();
    if (came && first < take.bytes)
        store_bytes(take.destination + first, take.bytes - first, bytes_of(word));
    __syncthreads();
    if (threadIdx.x == 0) {
        tell_taken(channel, lane, turn);
        if (lane == 0)
            log.run(turn, began, moving);
    }
}

template <typename RunLog>
__device__ void await_channel_put(const ChannelArguments& channel, const RunLog& log) {
    const uint64_t turn = load_turn(channel.turns);
    Word word;
    const uint64_t began = log.clock();
    await_channel_word(channel, turn, 0, 0, word);
    let_next_start();
    await_predecessors();
    log.run(turn, began, log.clock());
}

template <typename RunLog>
__device__ void tell_channel_taken(const ChannelArguments& channel, const RunLog& log) {
    let_next_start();
    await_predecessors();
    __threadfence_system();
    tell_taken(channel, 0, load_turn(channel.turns));
    log.run(0, 0, 0);
}

template <typename RunLog>
__device__ void pull_through_channel(const PullThroughChannelArguments& pull, const RunLog& log) {
    const ChannelArguments& channel = pull.channel;
    __shared__ bool there; // else the source has died
    uint64_t turn = 0;
    const uint64_t began = log.clock();
    if (threadIdx.x == 0) {
        turn = load_turn(channel.turns);
        Word word;
        there = await_channel_word(channel, turn, 0, 0, word);
        __threadfence_system(); // what the source wrote before its signal is read after it, by the whole block
    }
    __syncthreads();
    let_next_start();
    await_predecessors();
    const uint64_t moving = log.clock();
    if (there)
        copy_bytes(pull.destination, pull.source, pull.bytes, whole_grid().first_index(), whole_grid().all_threads());
    if (is_last(whole_grid(), pull.ticket, true)) { // every block has seen the run's number by now
        tell_taken(channel, 0, turn);
        log.run(turn, began, moving);
    }
}

} // namespace

// Each operation twice: of runs that nobody records, and of those that are.

extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kMailThreads)
    gpurun_put_in_channel(const PutInChannelArguments put) {
    put_in_channel(put, NoLog{});
}
extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kMailThreads)
    gpurun_put_in_channel_logged(const Logged<PutInChannelArguments> put) {
    put_in_channel(put.arguments, Log{put.log});
}

extern "C" __global__ void gpurun_await_channel_taken(const ChannelArguments channel) {
    await_channel_taken(channel, NoLog{});
}
extern "C" __global__ void gpurun_await_channel_taken_logged(const Logged<ChannelArguments> channel) {
    await_channel_taken(channel.arguments, Log{channel.log});
}

extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kMailThreads)
    gpurun_take_from_channel(const TakeFromChannelArguments take) {
    take_from_channel(take, NoLog{});
}
extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kMailThreads)
    gpurun_take_from_channel_logged(const Logged<TakeFromChannelArguments> take) {
    take_from_channel(take.arguments, Log{take.log});
}

extern "C" __global__ void gpurun_await_channel_put(const ChannelArguments channel) {
    await_channel_put(channel, NoLog{});
}
extern "C" __global__ void gpurun_await_channel_put_logged(const Logged<ChannelArguments> channel) {
    await_channel_put(channel.arguments, Log{channel.log});
}

extern "C" __global__ void gpurun_tell_channel_taken(const ChannelArguments channel) {
    tell_channel_taken(channel, NoLog{});
}
extern "C" __global__ void gpurun_tell_channel_taken_logged(const Logged<ChannelArguments> channel) {
    tell_channel_taken(channel.arguments, Log{channel.log});
}

extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kCopyThreads)
    gpurun_pull_through_channel(const PullThroughChannelArguments pull) {
    pull_through_channel(pull, NoLog{});
}
extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kCopyThreads)
    gpurun_pull_through_channel_logged(const Logged<PullThroughChannelArguments> pull) {
    pull_through_channel(pull.arguments, Log{pull.log});
}
