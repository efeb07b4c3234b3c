// Channels: messages of graphs, which are sent again whenever the graphs of both sides run. Needs Counters, Graphs, and
// Mails, whose words carry the bytes.
#pragma once

#include "device/capability/mails.hpp"

namespace gpurun::device {

// Where what graphs repeat says when each of its runs was. One for all channels of a process.
struct RunLog {
    uint64_t* taken = nullptr;             // device memory of this process: places asked for so far
    platform::RunTimes* places = nullptr;  // in memory as of counters, as the next
    uint64_t room = 0;                     // of places
    std::atomic<uint64_t>* lost = nullptr; // about how many came when there was none left
};

// Where a side of a channel says that it has waited for long, as long as it does. In memory like that of counters.
struct ChannelWait {
    Counter runs;      // that the other side must have made; 0: it does not wait. Stored last
    Counter since_ns;  // CLOCK_MONOTONIC, if the device knows that; else 0
    Counter waited_ns; // else how long, so far
};

// A message of a graph, from a stream of one process to one of another, that is sent again whenever their graphs run:
// run n of the source's operations goes with run n of the target's. What changes from run to run is in device memory,
// all of which reads 0 at first: each side counts its runs, and what is sent carries the run's number.
struct Channel {
    std::byte* places = nullptr;    // the target's memory: kChannelPlaces times channel_place_bytes()
    uint64_t* taken = nullptr;      // the source's memory: for each lane, how many runs the target has taken
    uint64_t* turns = nullptr;      // memory of this process: for each lane, how many runs this side has made
    size_t bytes = 0;               // of the message, up to kLargestInChannel; 0 is a signal
    const Counter* alive = nullptr; // poisoned before release_peer() of the other side: waits end, nothing is taken
    Counter* cut = nullptr;         // reads 1 once something ended so
    ChannelWait* wait = nullptr;    // all 0 at first; null: nobody looks
    // When the runs of this side were; null: nobody wants to know. A run is told of by its first operation, which takes
    // a place, and by its last, which says that it is done. They may be the same.
    const RunLog* log = nullptr;   // outlives the graph
    uint64_t* log_place = nullptr; // memory of this process, by which they agree
    uint32_t log_name = 0;         // never 0
    bool first_of_run = true;
    bool last_of_run = true;
};
struct ChannelPut {
    Channel channel;
    const void* source;
};
struct ChannelTake {
    Channel channel;
    void* destination;
    size_t bytes;
};
constexpr size_t kMostMet = 8;       // channels, each way, of one operation
constexpr size_t kChannelPlaces = 2; // runs that the source can be ahead of the target
constexpr size_t kLaneBytes = 4096;  // a lane's part of a message
constexpr size_t kMostLanesOfBlock = 8;
struct ExchangeBlocks {
    uint32_t putting; // which wait where there is no room
    uint32_t taking;
};
constexpr size_t kLargestInChannel = 512 * 1024;
constexpr size_t kMostLanes = kLargestInChannel / kLaneBytes;
constexpr size_t channel_lanes(size_t bytes) { return bytes == 0 ? 1 : (bytes + kLaneBytes - 1) / kLaneBytes; }
template <typename Message> // ChannelPut or ChannelTake
size_t lanes_of_all(std::span<const Message> messages) {
    size_t lanes = 0;
    for (const Message& each : messages)
        lanes += channel_lanes(each.channel.bytes);
    return lanes;
}
constexpr size_t lane_words_bytes(size_t bytes) {
    return mail_words_bytes(bytes == 0 ? 1 : bytes < kLaneBytes ? bytes : kLaneBytes);
}
constexpr size_t channel_place_bytes(size_t bytes) { return channel_lanes(bytes) * lane_words_bytes(bytes); }

class Channels {
  public:
    // Enqueue, made to be captured: one run of each side in a graph, since operations may start before what precedes
    // them has ended. REQUIRES the memory of the channel to be device memory. What waits keeps a part of the device
    // busy, as in Counters::watch_counter(). `source` and `destination` are pinned, device or managed memory.

    // Source: its next run. Waits until the target has taken all but kChannelPlaces - 1 of the runs before.
    virtual base::Result<void> channel_put(const Channel& channel, const void* source, Stream stream) = 0;
    // Source: until the target has taken the latest run.
    virtual base::Result<void> channel_await_taken(const Channel& channel, Stream stream) = 0;
    // Target: its next run. Waits for the source's, takes the first `bytes`.
    virtual base::Result<void> channel_take(const Channel& channel, void* destination, size_t bytes, Stream stream) = 0;
    // Target: until the source's next run has begun, by one thread; take it behind that, or, of a channel without
    // bytes, tell that it is taken, with whatever is enqueued between them.
    virtual base::Result<void> channel_await_put(const Channel& channel, Stream stream) = 0;
    virtual base::Result<void> channel_tell_taken(const Channel& channel, Stream stream) = 0;
    // The same with a copy between them, in one. `ticket` is as in Mail; `source` may be imported memory.
    virtual base::Result<void> channel_pull(const Channel& channel, void* destination, const void* source, size_t bytes,
                                            uint32_t* ticket, Stream stream) = 0;
    // Of several channels at a time, up to kMostMet each way, in one operation. All is put, then taken, as by
    // channel_put() and channel_take(), by so many blocks at most. Each has up to kMostLanesOfBlock, each way.
    virtual base::Result<void> channel_exchange(std::span<const ChannelPut> puts, std::span<const ChannelTake> takes,
                                                const ExchangeBlocks& blocks, Stream stream) = 0;
    // Signals are put, then the runs of others awaited, as by channel_put() and channel_await_put().
    virtual base::Result<void> channel_meet(std::span<const Channel> puts, std::span<const Channel> awaited,
                                            Stream stream) = 0;
    // Signals are told to be taken, then the own ones awaited, as by channel_tell_taken() and channel_await_taken().
    virtual base::Result<void> channel_part(std::span<const Channel> taken, std::span<const Channel> awaited,
                                            Stream stream) = 0;

  protected:
    ~Channels() = default; // it is a part of a Device
};

} // namespace gpurun::device
