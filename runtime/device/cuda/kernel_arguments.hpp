// What the kernels of kernels.cu are given: read by both compilers, host and device.
#pragma once

#include <cstdint>

namespace gpurun::device::cuda {

// Threads of a block; a kernel of several blocks says that it is done when the last of them is.
constexpr unsigned kMailThreads = 512;
constexpr unsigned kCopyThreads = 512;
constexpr unsigned kReduceThreads = 256;
constexpr unsigned kFusedReduceThreads = 512; // at most: where a block has more than 16 bytes for each of half as many

struct PutMailArguments {
    const unsigned char* source;
    void* words;
    uint64_t bytes;
    uint64_t* sent;
    uint64_t value;
    uint32_t* ticket;
    uint64_t* times; // host memory for three of them: platform::OperationTimes; or null
    uint32_t mark;
};

struct TakeMailArguments {
    unsigned char* destination;
    const void* words;
    uint64_t bytes;
    const uint64_t* sent;
    uint64_t* taken;
    uint64_t value;
    uint32_t* ticket;
    uint64_t* times;
    uint32_t mark;
    uint32_t seen; // 1: whoever sees `taken` sees the destination too
};

// A block puts, or takes, one of them.
constexpr unsigned kMailsOfLaunch = 32;
struct PutMailsArguments {
    PutMailArguments mails[kMailsOfLaunch];
};
struct TakeMailsArguments {
    TakeMailArguments mails[kMailsOfLaunch];
};

struct FencedCopyArguments {
    void* destination;
    const void* source;
    uint64_t bytes;
    const uint64_t* before; // or null
    uint64_t* after;
    uint64_t value;
    uint32_t* ticket;
    uint64_t* gate; // device memory: reads `value` once the first block has seen `before`
    uint64_t* times;
};

struct CounterArguments {
    uint64_t* counter;
    uint64_t value;
};

// The first block has the signals and what is awaited, if there are any. Each of the others has blocks of its own: the
// first of each, in order, and behind the last one's.
constexpr unsigned kExchangedOfLaunch = 16;
constexpr unsigned kCopiedOfLaunch = 4;
constexpr unsigned kPulledOfLaunch = 8;
struct CopyBesideArguments {
    void* destination;
    const void* source;
    uint64_t bytes;
};
union ExchangePart {
    PutMailArguments put;
    CopyBesideArguments copy;
    FencedCopyArguments pull;
    TakeMailArguments take;
};
template <unsigned kParts, unsigned kEdges>
struct ExchangeArguments {
    static constexpr unsigned kMostParts = kParts;
    static constexpr unsigned kMostEdges = kEdges;

    uint16_t number_of_puts;
    uint16_t number_of_copies;
    uint16_t number_of_pulls;
    uint16_t number; // of all parts
    uint32_t number_of_signals;
    uint32_t number_of_awaits;
    uint16_t first_blocks[kParts + 1];
    ExchangePart parts[kParts];     // puts, copies, pulls, takes
    CounterArguments edges[kEdges]; // signals, awaits
};
// A launch takes 0.5 to 1 us less with arguments of 600 bytes than with 4 KiB.
using FewExchanged = ExchangeArguments<6, 8>;
using AllExchanged =
    ExchangeArguments<2 * kExchangedOfLaunch + kCopiedOfLaunch + kPulledOfLaunch, 2 * kExchangedOfLaunch>;
static_assert(sizeof(AllExchanged) <= 4096); // of a kernel, for drivers before 12.1

struct WatchCounterArguments {
    const uint64_t* counter;
    uint64_t value;
};

constexpr unsigned kReducedOfLaunch = 16;
struct ReduceArguments {
    void* result;
    uint64_t bytes; // of each buffer
    const void* operands[kReducedOfLaunch];
    uint32_t operands_given;
    uint32_t op; // base::Op
    uint32_t divisor;
    uint32_t aligned; // 1: all buffers, to 16 bytes behind `head`
    uint32_t head;    // bytes, of whole elements
};

// Each block puts a part of each mail, then reduces a part of the result.
struct FusedOperand {
    const void* words;    // of a mail, or a buffer
    const uint64_t* sent; // of a buffer: it may be read once this reads `value`; null: at once
    uint64_t* taken;      // null: nobody wants to know
    uint64_t value;
    uint64_t* times;
    void* answer;  // another place of the result; or null
    uint32_t mark; // 0: a buffer
};
struct FusedReduceArguments {
    PutMailArguments puts[kExchangedOfLaunch];
    FusedOperand operands[kReducedOfLaunch];
    CounterArguments signals[kExchangedOfLaunch];
    CounterArguments awaits[kExchangedOfLaunch];
    void* result;
    uint64_t bytes;
    uint32_t* put_ticket; // of what is put
    uint32_t* ticket;     // of the reduction
    uint64_t* gate; // device memory: reads `gate_value` once the first block has seen all buffers ready; null: they are
    uint64_t gate_value;
    const uint64_t* timed; // any of all their times; null: nobody wants to know
    uint32_t number_of_puts;
    uint32_t number_of_signals;
    uint32_t number_of_awaits;
    uint32_t operands_given;
    uint32_t combined;    // the first so many of them
    uint32_t has_mails;   // among the operands
    uint32_t own_operand; // one that is combined and no mail; where all are mails, more than there are
    uint32_t is_seen;     // 1: whoever sees that it is done sees what it has written, in peers' memory too
    uint32_t op;          // base::Op
    uint32_t divisor;
    uint32_t aligned; // 1: the result, answers and all buffers, to 16 bytes behind `head`
    uint32_t head;    // bytes, of whole elements; none where there are mails
};

constexpr uint64_t kNoMoreRounds = ~uint64_t{0};
struct ReadClockArguments {
    const uint64_t* asked;
    uint64_t* time;
    uint64_t rounds;
};

struct WriteTimeArguments {
    uint64_t* where;
};

// When a run was (device::RunLog): by its first operation, its last, or one that is both.
constexpr uint32_t kFirstOfRun = 1;
constexpr uint32_t kLastOfRun = 2;
constexpr uint32_t kWordsOfRun = 5; // platform::RunTimes
struct RunLogArguments {
    uint64_t* taken;
    uint64_t* places;
    uint64_t room;
    uint64_t* lost;
    uint64_t* place;
    uint32_t name;
    uint32_t parts;
};

struct ChannelArguments {
    void* places;
    uint64_t* taken;
    uint64_t* turns;
    const uint64_t* alive;
    uint64_t* cut;
    uint64_t bytes;
    uint32_t lanes;      // a block makes one
    uint32_t lane_words; // of a lane in a place
    uint64_t* wait;      // host memory for three of them: device::ChannelWait; or null
};

struct PutInChannelArguments {
    ChannelArguments channel;
    const unsigned char* source;
};

struct TakeFromChannelArguments {
    ChannelArguments channel;
    unsigned char* destination;
    uint64_t bytes;
};

struct PullThroughChannelArguments {
    ChannelArguments channel;
    void* destination;
    const void* source;
    uint64_t bytes;
    uint32_t* ticket;
};

// Of a run that is recorded, by a kernel of its own: what nobody records has nothing to look at.
template <typename Arguments>
struct Logged {
    Arguments arguments;
    RunLogArguments log;
};

// What the ranks of a collective put and take at the same time in a graph. `log` has no `taken` where nobody records.
constexpr unsigned kMetInGraph = 8;
struct LoggedChannel {
    ChannelArguments channel;
    RunLogArguments log;
};
struct LoggedPut {
    PutInChannelArguments put;
    RunLogArguments log;
};
struct LoggedTake {
    TakeFromChannelArguments take;
    RunLogArguments log;
};
constexpr unsigned kLanesOfBlock = 8; // at most, each way, of an exchange
struct ExchangeInGraphArguments {
    LoggedPut puts[kMetInGraph];
    LoggedTake takes[kMetInGraph];
    uint32_t lanes_put; // of all together
    uint32_t lanes_taken;
    uint32_t putters; // how many blocks put
    uint32_t takers;
    uint32_t is_logged;
};
struct MeetInGraphArguments {
    LoggedChannel puts[kMetInGraph]; // signals
    LoggedChannel awaited[kMetInGraph];
    uint32_t number_of_puts;
    uint32_t number_awaited;
};
struct PartInGraphArguments {
    LoggedChannel taken[kMetInGraph];
    LoggedChannel awaited[kMetInGraph];
    uint32_t number_taken;
    uint32_t number_awaited;
};

constexpr unsigned kGraphReduceThreads = 1024; // at most: four lanes
struct GraphReduceArguments {
    struct Operand {
        ChannelArguments channel; // which brings it, if it is not this rank's own
        const void* buffer;       // of the own one
        RunLogArguments log;
    };
    LoggedPut puts[kMetInGraph];
    Operand operands[kMetInGraph];
    void* result;
    uint64_t bytes;
    uint32_t number_of_puts;
    uint32_t operands_given;
    uint32_t own_operand; // more than there are if this rank has none
    uint32_t lanes;       // of the longest of all
    uint32_t is_logged;
    uint32_t op; // base::Op
    uint32_t divisor;
    uint32_t aligned; // 1: the result and the own operand, to 16 bytes
};
static_assert(sizeof(GraphReduceArguments) <= 4096);

constexpr uint32_t kPlacesOfChannel = 2;
constexpr uint64_t kBytesOfLane = 8 * kMailThreads; // a word for each thread

} // namespace gpurun::device::cuda
