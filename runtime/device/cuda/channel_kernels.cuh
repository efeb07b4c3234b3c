// Messages of graphs, one by one. A block makes a lane.
#pragma once

#include "device/cuda/channel_words.cuh"

namespace {

using gpurun::device::cuda::ExchangeInGraphArguments;
using gpurun::device::cuda::kLanesOfBlock;
using gpurun::device::cuda::Logged;
using gpurun::device::cuda::MeetInGraphArguments;
using gpurun::device::cuda::PartInGraphArguments;
using gpurun::device::cuda::PullThroughChannelArguments;
using gpurun::device::cuda::PutInChannelArguments;
using gpurun::device::cuda::TakeFromChannelArguments;

// A thread puts 8 bytes, or takes them. They return the `clock` of when it no longer waited.
template <typename Clock>
__device__ uint64_t put_lane(const PutInChannelArguments& put, uint32_t lane, uint64_t turn, bool had_room,
                             const Clock& clock) {
    const ChannelArguments& channel = put.channel;
    const uint64_t first = lane * kBytesOfLane + 8 * threadIdx.x;
    const uint64_t bytes = first < channel.bytes ? load_bytes(put.source + first, channel.bytes - first) : 0;
    if (channel.bytes == 0)
        __threadfence_system(); // a signal says that what came before it is there
    const bool room = had_room || await_taken(channel, lane, to_be_taken(turn));
    const uint64_t moving = clock();
    if (room && (first < channel.bytes || first == 0))
        store_word(place_of(channel, turn, lane), threadIdx.x, word_of(bytes, mark_of(turn)));
    return moving;
}
template <typename Clock>
__device__ uint64_t take_lane(const TakeFromChannelArguments& take, uint32_t lane, uint64_t turn, const Clock& clock) {
    const uint64_t first = lane * kBytesOfLane + 8 * threadIdx.x;
    Word word;
    const bool came = (first < take.bytes || first == 0) && // of no bytes, too, the first word is waited for
                      await_channel_word(take.channel, turn, lane, threadIdx.x, word);
    const uint64_t moving = clock();
    if (came && first < take.bytes)
        store_bytes(take.destination + first, take.bytes - first, bytes_of(word));
    return moving;
}

template <typename RunLog>
__device__ void put_in_channel(const PutInChannelArguments& put, const RunLog& log) {
    const ChannelArguments& channel = put.channel;
    const uint32_t lane = blockIdx.x;
    __shared__ bool had_room; // most runs have: the peer has said so long ago
    const uint64_t turn =
        turn_of_block(channel, lane, [&](uint64_t now) { had_room = is_taken(channel, lane, to_be_taken(now)); });
    begin_in_graph();
    const uint64_t began = log.clock();
    const uint64_t moving = put_lane(put, lane, turn, had_room, [&] { return log.clock(); });
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
    const uint64_t turn = turn_of_block(channel, lane, [](uint64_t) {});
    begin_in_graph();
    const uint64_t began = log.clock();
    const uint64_t moving = take_lane(take, lane, turn, [&] { return log.clock(); });
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
    await_predecessors();
    Word word;
    const uint64_t began = log.clock();
    await_channel_word(channel, turn, 0, 0, word);
    let_next_start(); // only now: the next one may be large
    log.run(turn, began, log.clock());
}

template <typename RunLog>
__device__ void tell_channel_taken(const ChannelArguments& channel, const RunLog& log) {
    begin_in_graph();
    __threadfence_system();
    tell_taken(channel, 0, load_turn(channel.turns));
    log.run(0, 0, 0);
}

template <typename RunLog>
__device__ void pull_through_channel(const PullThroughChannelArguments& pull, const RunLog& log) {
    const ChannelArguments& channel = pull.channel;
    __shared__ bool there; // else the source has died
    uint64_t turn = 0;
    await_predecessors();
    const uint64_t began = log.clock();
    if (threadIdx.x == 0) {
        turn = load_turn(channel.turns);
        Word word;
        there = await_channel_word(channel, turn, 0, 0, word);
        __threadfence_system(); // what the source wrote before its signal is read after it, by the whole block
    }
    __syncthreads();
    let_next_start();
    const uint64_t moving = log.clock();
    if (there)
        copy_bytes(pull.destination, pull.source, pull.bytes, whole_grid().first_index(), whole_grid().all_threads());
    if (is_last(whole_grid(), pull.ticket, true)) { // every block has seen the run's number by now
        tell_taken(channel, 0, turn);
        log.run(turn, began, moving);
    }
}

// Of several messages one after the other, a lane: which message, and its number there.
struct LaneOfAll {
    unsigned message = 0;
    uint32_t lane;

    template <typename LanesOf>
    __device__ LaneOfAll(uint32_t of_all, const LanesOf& lanes_of) : lane(of_all) {
        while (lane >= lanes_of(message))
            lane -= lanes_of(message++);
    }
};

// How many of `lanes` this block makes, of so many `blocks` that make them in turn.
__device__ unsigned lanes_of_block(uint32_t lanes, uint32_t blocks) {
    return blockIdx.x < blocks && blockIdx.x < lanes ? (lanes - 1 - blockIdx.x) / blocks + 1 : 0;
}

// A block puts all of its own before it waits for any.
__device__ void exchange_in_graph(const ExchangeInGraphArguments& all) {
    __shared__ uint64_t put_turns[kLanesOfBlock], taken_turns[kLanesOfBlock];
    __shared__ bool had_room[kLanesOfBlock];
    const auto put_at = [&](unsigned i) {
        return LaneOfAll(blockIdx.x + i * all.putters, [&](unsigned m) { return all.puts[m].put.channel.lanes; });
    };
    const auto take_at = [&](unsigned i) {
        return LaneOfAll(blockIdx.x + i * all.takers, [&](unsigned m) { return all.takes[m].take.channel.lanes; });
    };
    const unsigned number_put = lanes_of_block(all.lanes_put, all.putters);
    const unsigned number_taken = lanes_of_block(all.lanes_taken, all.takers);
    // The lane of which this thread looks up the turn before all, and tells afterwards; too many if it has none.
    const unsigned own_put = threadIdx.x, own_take = threadIdx.x - warpSize;
    if (own_put < number_put) {
        const LaneOfAll at = put_at(own_put);
        const ChannelArguments& channel = all.puts[at.message].put.channel;
        put_turns[own_put] = load_turn(channel.turns + at.lane);
        had_room[own_put] = is_taken(channel, at.lane, to_be_taken(put_turns[own_put]));
    }
    if (own_take < number_taken) {
        const LaneOfAll at = take_at(own_take);
        taken_turns[own_take] = load_turn(all.takes[at.message].take.channel.turns + at.lane);
    }
    __syncthreads();
    begin_in_graph();
    const auto clock = [&]() -> uint64_t { return all.is_logged != 0 ? read_clock() : 0; };
    const uint64_t began = clock();

    for (unsigned i = 0; i < number_put; ++i) {
        const LaneOfAll at = put_at(i);
        const auto& [put, log] = all.puts[at.message];
        const uint64_t moving = put_lane(put, at.lane, put_turns[i], had_room[i], clock);
        if (all.is_logged != 0 && at.lane == 0 && threadIdx.x == 0)
            log_run(log, put_turns[i], began, moving);
    }
    if (own_put < number_put) {
        const LaneOfAll at = put_at(own_put);
        all.puts[at.message].put.channel.turns[at.lane] = put_turns[own_put] + 1;
    }
    for (unsigned i = 0; i < number_taken; ++i) {
        const LaneOfAll at = take_at(i);
        const auto& [take, log] = all.takes[at.message];
        const uint64_t moving = take_lane(take, at.lane, taken_turns[i], clock);
        if (all.is_logged != 0 && at.lane == 0 && threadIdx.x == 0)
            log_run(log, taken_turns[i], began, moving);
    }
    if (number_taken == 0)
        return;
    __syncthreads(); // before another run may be put here
    if (own_take < number_taken) {
        const LaneOfAll at = take_at(own_take);
        tell_taken(all.takes[at.message].take.channel, at.lane, taken_turns[own_take]);
    }
}

// A thread of the first warp for each channel. All signals are put before any run is awaited.
__device__ void meet_in_graph(const MeetInGraphArguments& all) {
    const unsigned i = threadIdx.x;
    if (i >= warpSize)
        return;
    const bool puts = i < all.number_of_puts, awaits = i < all.number_awaited;
    const uint64_t put = puts ? load_turn(all.puts[i].channel.turns) : 0;
    const uint64_t awaited = awaits ? load_turn(all.awaited[i].channel.turns) : 0;
    await_predecessors();
    const uint64_t began = read_clock();
    if (puts)
        __threadfence_system(); // a signal says that what came before it is there
    if (puts && await_taken(all.puts[i].channel, 0, to_be_taken(put), true))
        store_word(place_of(all.puts[i].channel, put, 0), 0, word_of(0, mark_of(put)));
    if (puts)
        all.puts[i].channel.turns[0] = put + 1;
    __syncwarp();
    Word word;
    if (awaits)
        await_channel_word(all.awaited[i].channel, awaited, 0, 0, word, true);
    if (awaits && all.awaited[i].channel.bytes == 0)
        __threadfence_system(); // what the source wrote before its signal is read after it
    __syncwarp();
    let_next_start();
    if (puts)
        log_run(all.puts[i].log, put, began, began);
    if (awaits)
        log_run(all.awaited[i].log, awaited, began, read_clock());
}

// The same: all is told before anything is awaited.
__device__ void part_in_graph(const PartInGraphArguments& all) {
    const unsigned i = threadIdx.x;
    if (i >= warpSize)
        return;
    const bool tells = i < all.number_taken, awaits = i < all.number_awaited;
    await_predecessors();
    if (tells) {
        __threadfence_system();
        tell_taken(all.taken[i].channel, 0, load_turn(all.taken[i].channel.turns));
    }
    __syncwarp();
    if (awaits)
        await_taken(all.awaited[i].channel, 0, load_turn(all.awaited[i].channel.turns), true);
    __syncwarp();
    let_next_start();
    if (tells)
        log_run(all.taken[i].log, 0, 0, 0);
    if (awaits)
        log_run(all.awaited[i].log, 0, 0, 0);
}

} // namespace

extern "C" __global__ void __launch_bounds__(gpurun::device::cuda::kMailThreads)
    gpurun_exchange_in_graph(const __grid_constant__ ExchangeInGraphArguments all) {
    exchange_in_graph(all);
}
extern "C" __global__ void gpurun_meet_in_graph(const __grid_constant__ MeetInGraphArguments all) {
    meet_in_graph(all);
}
extern "C" __global__ void gpurun_part_in_graph(const __grid_constant__ PartInGraphArguments all) {
    part_in_graph(all);
}

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
