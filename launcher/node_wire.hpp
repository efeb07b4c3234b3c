// What a head (head.hpp) and its nodes (node_daemon.hpp) say to each other: one message of a NodeLink each.
//
//   node -> head   kHello             who I am, with the job's key; nothing is said to who does not have it
//   head -> node   kSetup, CBOR       words of the command line, environment, folder, its terminal
//   node -> head   kCapacity          how many ranks I would take, and a port that is free here. Or kCannot, at any
//                                     time: the status that gpurun is to end with, and why
//   head -> node   kPlace, CBOR       which ranks are mine, and where all the others are
//   node -> head   kStarted           a Started for each rank
//   node -> head   kJoined            the rank is in gpurun_init()
//   node -> head   kReady             all of mine are: their records of the job segment
//   head -> node   kGo                the records of all ranks
//   both           kLeaving           the rank has come to a step of gpurun_finalize(); its peers are told
//   both           kFinalized         it has returned from that; the same
//   node -> head   kEnded + text      the rank has ended; the last line of its standard error
//   node -> head   kFailed + 2 texts  it has failed while it runs
//   node -> head   kVersions + text   it cannot join
//   head -> node   kDead              a rank of another node has died
//   head -> node   kRefuse + text     ranks that are in gpurun_init() are told that the job cannot start
//   head -> node   kEnd, kKill, kSignal, kStop, kContinue
//   head -> node   kAsk               what do your ranks wait for? With a number, which the answers repeat
//   node -> head   kWaits             what one of them does (report_wire.hpp)
//   node -> head   kOutput + bytes    what a stream of a rank has brought; at most the window that is left
//   node -> head   kOutputEnd         nothing more comes of it
//   head -> node   kOutputTaken       so many bytes have been passed on: as many more may come
//   head -> node   kOutputClosed      nobody reads it any more
//   head -> node   kInput + bytes     for the ranks that read gpurun's input, in a window too; kInputEnd: that was all
//   node -> head   kInputTaken        so many bytes of it have been passed on; kInputClosed: nobody reads it any more
//   node -> head   kSay + text        lines of gpurun's own
//   node -> head   kReport + text     what --report-bindings, --dry-run or --topo print of this node
//   head -> node   kPing              what does your clock show? Answered at once, at any time: kPong
//   node -> head   kRecorded          with --trace, all ranks have ended: when each has
//   head -> node   kPartWanted        what a rank has recorded, from there on
//   node -> head   kPart + bytes      a part of that; none: there is no more. kPartsTaken: the head has all
//   node -> head   kDone              all ranks have ended, and nothing is left of them. The head hangs up
//
// Of a job that another launcher has started, the nodes have supervisors (supervisor.hpp), and that of rank 0 connects
// them (node_switch.hpp):
//
//   node -> switch  kHello             as above. The answer is the same without a text
//   node -> switch  kGathered          all ranks that the launcher has started here have come: which ones, of how many
//   switch -> node  kNodes + text      all have: the node of each rank, and the address by which others reach this one
//   both            kReady, kGo, kLeaving, kFinalized, kDead, kRefuse: as above
//   both            kAborted           a rank has called gpurun_abort(): end yours
//
// So a reader that does not read stops only the ranks that print, as on one node: what else is said goes on. Neither
// side trusts the other: what cannot be there ends the link.
#pragma once

#include "base/format.hpp"
#include "node_link.hpp"
#include "platform/job_segment.hpp"

#include <cstdint>
#include <cstring>
#include <gpurun/version.h>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpurun::launcher::node_wire {

constexpr uint32_t kMagic = 0x6e6f6465; // "edon"
constexpr uint32_t kProtocol = 5;

enum class Kind : uint32_t {
    kHello = 1,
    kSetup,
    kCapacity,
    kCannot,
    kPlace,
    kStarted,
    kJoined,
    kReady,
    kGo,
    kFinalized,
    kEnded,
    kFailed,
    kVersions,
    kDead,
    kRefuse,
    kEnd,
    kKill,
    kSignal,
    kStop,
    kContinue,
    kOutput,
    kOutputEnd,
    kOutputTaken,
    kOutputClosed,
    kInput,
    kInputEnd,
    kInputTaken,
    kInputClosed,
    kSay,
    kDone,
    kAsk,
    kWaits,
    kReport,
    kPing,
    kPong,
    kRecorded,
    kPartWanted,
    kPart,
    kPartsTaken,
    kGathered,
    kNodes,
    kAborted,
    kLeaving
};

// Its first three fields keep their places in every protocol, so that versions that differ can say so.
struct Hello {
    uint32_t magic = kMagic;
    uint32_t protocol = kProtocol;
    uint32_t version = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;
    uint32_t layout = platform::kLayout; // of the job segment
    uint32_t node = 0;
    platform::NodeKey key{};
};
inline bool is_of_this_build(const Hello& hello) {
    const Hello own;
    return hello.protocol == own.protocol && hello.version == own.version && hello.layout == own.layout;
}
inline std::string version_of(const Hello& hello) {
    return base::format("{}.{}.{}", hello.version >> 16, hello.version >> 8 & 0xff, hello.version & 0xff);
}

struct Capacity {
    uint32_t slots = 0;
    uint32_t port = 0;
};

struct Started {
    int32_t pid = 0;
    char device[60] = {};
};

struct OfRank { // its number in the job
    uint32_t rank = 0;
};

struct Leaving {
    uint32_t rank = 0; // the same
    uint32_t steps = 0;
};

struct Ended {
    uint32_t rank = 0;
    uint32_t by_signal = 0;
    int32_t value = 0;
    uint32_t said_hello = 0;
    uint32_t finalized = 0;
};

struct Failed { // + `what`, and the last line
    uint32_t rank = 0;
    int32_t exit_status = 0;
    uint32_t whole_job = 0;
    uint32_t what_bytes = 0;
};

struct Number { // a signal, a status, bytes
    int32_t value = 0;
};

struct Time { // by the clock of who says it
    int64_t ns = 0;
};

struct Pong {
    Time asked; // as it was in the question
    Time now;
};

struct PartOf { // of what a rank has recorded
    uint32_t rank = 0;
    uint32_t unused = 0;
    uint64_t offset = 0;
};
constexpr size_t kLargestPart = size_t{1} << 20;

constexpr uint32_t kStreams = 2; // of a rank: standard output, standard error
constexpr uint32_t kOutputWindow = 64 * 1024;
constexpr int32_t kInputWindow = 64 * 1024;

struct OutputOf {
    uint32_t rank = 0;
    uint32_t stream = 0;
};

struct OutputTaken {
    OutputOf of;
    uint32_t bytes = 0;
};

static_assert(sizeof(Hello) == 52 && sizeof(Started) == 64 && sizeof(Ended) == 20 && sizeof(Failed) == 16);
static_assert(sizeof(OutputOf) == 8 && sizeof(OutputTaken) == 12 && sizeof(PartOf) == 16);

template <typename T>
std::string text_of(const T& message, std::string_view rest = {}) {
    static_assert(std::is_trivially_copyable_v<T>);
    return std::string(reinterpret_cast<const char*>(&message), sizeof message) += rest;
}

// Takes one off the front of `text`; nothing if there is none.
template <typename T>
std::optional<T> take_front(std::string_view& text) {
    T message;
    if (text.size() < sizeof message)
        return std::nullopt;
    std::memcpy(&message, text.data(), sizeof message);
    text.remove_prefix(sizeof message);
    return message;
}

// Messages that are a list.
template <typename T>
std::string text_of_all(const std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)};
}

// The whole of a message.
template <typename T>
std::optional<T> message_of(std::string_view text) {
    const std::optional<T> message = take_front<T>(text);
    return text.empty() ? message : std::nullopt;
}

} // namespace gpurun::launcher::node_wire
