// What streams of emulated devices execute.
#pragma once

#include "base/reduction.hpp"
#include "device/capability/channels.hpp"
#include "device/emulated/arena.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace gpurun::device::emulated {

class Memory;

struct Copy {
    std::byte* destination;
    const std::byte* source;
    size_t bytes;
};
// Only if the word had come to `value` before it was poisoned, if it was.
struct CopyIfCame {
    Copy copy;
    std::atomic<uint64_t>* word;
    uint64_t value;
};
struct Fill {
    std::byte* destination;
    int value;
    size_t bytes;
    bool in_segment; // of a device
};
struct CallHost {
    void (*function)(void*);
    void* argument;
};
struct WriteWord {
    std::atomic<uint64_t>* word;
    uint64_t value;
};
// For counters and for progress words of this and other processes: until the word reads `value` or more.
struct AwaitWord {
    std::atomic<uint64_t>* word;
    uint64_t value;
};
struct Stamp { // the time
    std::atomic<int64_t>* where;
};
// In any order, as they come.
struct TakeMails {
    struct One {
        CopyIfCame copy;
        WriteWord end;
        Times* times; // or null
    };
    std::shared_ptr<std::vector<One>> mails = std::make_shared<std::vector<One>>();
};
struct ReduceElements {
    struct Arguments {
        base::Reduction reduction;
        size_t count;
        void* result;
        std::vector<const void*> operands;
    };
    std::shared_ptr<const Arguments> arguments;
};
struct Reclaim {
    Memory* memory;
    Arena::Block retired;
};
// One side's run of a message of a graph. The first word of a place says which run it holds; the message is behind it.
struct ChannelPut {
    Channel channel;
    const std::byte* source;
};
struct ChannelAwaitTaken {
    Channel channel;
};
struct ChannelTake {
    Channel channel;
    std::byte* destination;
    size_t bytes;
    bool ends;               // else the run goes on: the target is not done with it
    const std::byte* source; // of the message, if it is not in the channel
};
struct ChannelTellTaken {
    Channel channel;
};
struct ReduceChannels { // takes one run of each
    struct Arguments {
        struct Operand {
            std::optional<Channel> channel; // which brings it
            const void* own;                // or not
        };
        base::Reduction reduction;
        size_t count;
        void* result;
        std::vector<Operand> operands;
    };
    std::shared_ptr<const Arguments> arguments;
};
class GraphBody;
struct RunEdge { // between branches of a graph, in which alone it is found
    size_t edge;
    bool signals; // else waits
};
struct EndRun { // of a graph, which lives at least as long
    std::shared_ptr<GraphBody> graph;
};
using Operation =
    std::variant<Copy, CopyIfCame, Fill, CallHost, WriteWord, AwaitWord, Stamp, TakeMails, ReduceElements, Reclaim,
                 ChannelPut, ChannelAwaitTaken, ChannelTake, ChannelTellTaken, ReduceChannels, RunEdge, EndRun>;

} // namespace gpurun::device::emulated
