// Reductions of graphs' messages, which put, take and combine in one: a kernel for each type. Compiled to an image of
// its own (meson.build), which Kernels loads.
#include "device/cuda/channel_words.cuh"
#include "device/cuda/reduced_words.cuh"

using namespace gpurun::device::cuda;

namespace {

constexpr unsigned kThreadsOfLane = kBytesOfLane / kWordBytes;
constexpr unsigned kLanesAtOnce = kGraphReduceThreads / kThreadsOfLane;

__device__ bool is_put(const GraphReduceArguments& all, unsigned put, uint32_t lane) {
    return put < all.number_of_puts && lane < all.puts[put].put.channel.lanes;
}
__device__ bool is_taken_here(const GraphReduceArguments& all, unsigned operand, uint32_t lane) {
    return operand < all.operands_given && operand != all.own_operand && lane < all.operands[operand].channel.lanes;
}

// The lanes of a block: one after another, or several at a time.
struct Lanes {
    unsigned beside; // each other
    unsigned which;  // this thread's
    unsigned thread; // in that lane

    __device__ Lanes()
        : beside(blockDim.x <= kThreadsOfLane ? 1 : blockDim.x / kThreadsOfLane), which(threadIdx.x / kThreadsOfLane),
          thread(threadIdx.x % kThreadsOfLane) {}
    __device__ uint32_t first() const { return blockIdx.x * beside; }
    __device__ uint32_t step() const { return gridDim.x * beside; }
};

// Of what this rank puts, or of what it takes, in one lane.
struct Turns {
    uint64_t numbers[kMetInGraph];
    bool had_room[kMetInGraph];
};

__device__ void look_up_puts(const GraphReduceArguments& all, uint32_t lane, unsigned thread, Turns& turns) {
    if (!is_put(all, thread, lane))
        return;
    const ChannelArguments& channel = all.puts[thread].put.channel;
    turns.numbers[thread] = load_turn(channel.turns + lane);
    turns.had_room[thread] = is_taken(channel, lane, to_be_taken(turns.numbers[thread]));
}

__device__ void look_up_takes(const GraphReduceArguments& all, uint32_t lane, unsigned thread, Turns& turns) {
    if (is_taken_here(all, thread, lane))
        turns.numbers[thread] = load_turn(all.operands[thread].channel.turns + lane);
}

// Of the run before: at the end of that one, its kernel would have had to wait for the store to arrive.
__device__ void tell_of_takes(const GraphReduceArguments& all, uint32_t lane, unsigned thread, const Turns& turns) {
    if (is_taken_here(all, thread, lane))
        store_counter(all.operands[thread].channel.taken + lane, turns.numbers[thread]);
}

// A warp puts the words that it may replace by the result, in place: two for each 16 bytes of the result.
__device__ void put_lane(const PutInChannelArguments& put, uint32_t lane, unsigned thread, uint64_t turn) {
    const ChannelArguments& channel = put.channel;
    const uint32_t mark = mark_of(turn);
    const unsigned of_warp = thread % warpSize;
    const unsigned first = 2 * (thread - of_warp) + of_warp;
    for (unsigned i = first; i < first + 2 * warpSize; i += warpSize) {
        const uint64_t at = lane * kBytesOfLane + 8 * i;
        if (at < channel.bytes)
            store_word(place_of(channel, turn, lane), i,
                       word_of(load_bytes(put.source + at, channel.bytes - at), mark));
    }
    __syncwarp();
}

__device__ void put_lane_of_all(const GraphReduceArguments& all, uint32_t lane, unsigned thread, const Turns& turns,
                                uint64_t began) {
    for (unsigned i = 0; i < all.number_of_puts; ++i) {
        const ChannelArguments& channel = all.puts[i].put.channel;
        if (lane < channel.lanes && (turns.had_room[i] || await_taken(channel, lane, to_be_taken(turns.numbers[i]))))
            put_lane(all.puts[i].put, lane, thread, turns.numbers[i]);
    }
    if (is_put(all, thread, lane))
        all.puts[thread].put.channel.turns[lane] = turns.numbers[thread] + 1;
    if (all.is_logged != 0 && lane == 0 && thread == 0)
        for (unsigned i = 0; i < all.number_of_puts; ++i)
            log_run(all.puts[i].log, turns.numbers[i], began, began);
}

template <Type kType>
__device__ bool load_operand(const ChannelArguments& channel, uint32_t lane, unsigned thread, unsigned bytes,
                             uint64_t turn, Word16<kType>& into) {
    const void* const place = place_of(channel, turn, lane);
    const uint32_t mark = mark_of(turn);
    return into.load_as_it_comes(bytes, [&](auto& words) {
        return wait_while(channel, turn + 1, [&] {
            bool more = false;
            for (unsigned i = 0; i < sizeof(words) / sizeof(Word); ++i) {
                words[i] = load_word(place, 2 * thread + i);
                more = more || words[i].low_mark != mark || words[i].high_mark != mark;
            }
            return more;
        });
    });
}

// The 16 bytes of a thread, of which it has its own. False if some operand never comes.
template <Type kType>
__device__ bool reduce_lane(const GraphReduceArguments& all, uint32_t lane, unsigned thread, unsigned bytes,
                            const Turns& turns, const Elements<typename TypeOf<kType>::Element>& own,
                            Word16<kType>& result) {
    for (unsigned operand = 0; operand < all.operands_given; ++operand) {
        Word16<kType> next;
        if (operand == all.own_operand)
            next.set(own);
        else if (!load_operand(all.operands[operand].channel, lane, thread, bytes, turns.numbers[operand], next))
            return false;
        if (operand == 0)
            result = next;
        else
            result.combine(all.op, next, std::make_index_sequence<kOps>());
    }
    result.divide(all.divisor);
    return true;
}

// Puts a lane and waits for it before the next: with all that is put in a loop of its own, 64 KiB took 2.5 us longer.
template <Type kType>
__device__ void reduce_as_it_comes(const GraphReduceArguments& all) {
    using Element = typename TypeOf<kType>::Element;
    __shared__ Turns turns[2][kLanesAtOnce];
    const Lanes lanes;
    const unsigned thread = lanes.thread;
    uint64_t began = 0;
    for (uint32_t first = lanes.first(); first < all.lanes; first += lanes.step()) {
        const uint32_t lane = first + lanes.which;
        Turns& of_puts = turns[0][lanes.which];
        Turns& of_takes = turns[1][lanes.which];
        look_up_puts(all, lane, thread, of_puts);
        look_up_takes(all, lane, thread, of_takes);
        __syncthreads();
        if (first == lanes.first()) {
            await_predecessors();
            began = all.is_logged != 0 ? read_clock() : 0;
        }
        const uint64_t at = uint64_t{lane} * kThreadsOfLane + thread;
        const unsigned bytes = kWordBytes * at < all.bytes ? bytes_at(at, all.bytes) : 0;
        Elements<Element> own; // on its way while the words are put
        if (all.own_operand < all.operands_given)
            own = load_elements<Element>(all.operands[all.own_operand].buffer, at, bytes, all.aligned != 0);
        put_lane_of_all(all, lane, thread, of_puts, began);
        tell_of_takes(all, lane, thread, of_takes);
        if (first == lanes.first())
            let_next_start(); // before the puts, 8 B took 0.15 us longer
        Word16<kType> result;
        const bool come = bytes != 0 && reduce_lane<kType>(all, lane, thread, bytes, of_takes, own, result);
        const uint64_t moving = all.is_logged != 0 ? read_clock() : 0;
        if (come)
            result.store(all.result, at, bytes, all.aligned != 0);
        __syncthreads(); // before the turns are those of other lanes
        if (is_taken_here(all, thread, lane))
            all.operands[thread].channel.turns[lane] = of_takes.numbers[thread] + 1;
        if (all.is_logged != 0 && lane == 0 && thread == 0)
            for (unsigned i = 0; i < all.operands_given; ++i)
                if (i != all.own_operand)
                    log_run(all.operands[i].log, of_takes.numbers[i], began, moving);
        __syncthreads();
    }
}

} // namespace

#define GPURUN_REDUCE_IN_GRAPH(number)                                                                                 \
    extern "C" __global__ void __launch_bounds__(kGraphReduceThreads)                                                  \
        gpurun_reduce_in_graph_##number(const __grid_constant__ GraphReduceArguments arguments) {                      \
        reduce_as_it_comes<static_cast<Type>(number)>(arguments);                                                      \
    }
GPURUN_FOR_EACH_REDUCED_TYPE(GPURUN_REDUCE_IN_GRAPH)
