// How a rank stands: what its threads wait for, and what lies there that nobody takes. What a rank answers when gpurun
// asks (wire::Ask), one Entry a message, and what gpurun makes its table of.
//
// Flat and of fixed width. Whatever is without meaning for a topic is 0. Every list is bounded, and End says how long
// it would have been.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpurun::platform::standing {

constexpr size_t kMostThreads = 16;
constexpr size_t kMostAwaited = 16;   // of a thread
constexpr size_t kMostUnawaited = 16; // requests
constexpr size_t kMostUnexpected = 8;
constexpr size_t kMostHeld = 16;
constexpr size_t kMostGraphs = 16; // messages of graphs
constexpr size_t kMostEntries =
    kMostThreads + kMostThreads * kMostAwaited + kMostUnawaited + kMostUnexpected + kMostHeld + kMostGraphs;

enum class Topic : uint32_t {
    kThread = 1, // in a call; what it waits for follows
    kAwaited,    // by the thread before
    kUnawaited,  // a message under way that no thread waits for
    kUnexpected, // a message that no receive has taken
    kHeld,       // a stream that waits for a peer's
    kGraph,      // a message of a graph whose run waits for the peer's
};
constexpr uint32_t kTopics = 6;

enum class What : uint32_t { kNothing = 0, kSend, kReceive, kProbe, kStream, kEvent, kRank };
constexpr uint32_t kWhats = 7;

enum class State : uint32_t {
    kUnknown = 0,
    kNoRoom,    // a send that is not published yet
    kUnmatched, // its other side has not been called
    kWantsEdge, // matched; all slots of the fence are in use
    kCopying,   // by a CPU
    kTurn,      // behind others in a relay, or that both ranks copy
    kRelay,     // `done` of `all` chunks
    kEdge,      // a fence's edge: `done` of `all`
    kDevice,    // work of the rank's own
    kInDoubt,   // whether the peer lives
    kRun,       // for the peer's graph to have run `all` times
};
constexpr uint32_t kStates = 11;

using Flags = uint32_t;
constexpr Flags kAny = 1;          // a thread: one of those awaited is enough
constexpr Flags kOnStream = 2;     // the order domain is a stream, not the host
constexpr Flags kCollective = 4;   // a message that a collective is made of
constexpr Flags kCaptured = 8;     // of a graph
constexpr Flags kBackward = 16;    // the edge is the target's to signal, not the source's
constexpr Flags kSynchronous = 32; // a send
constexpr Flags kPeerEdge = 64;    // the edge is the peer's to signal
constexpr Flags kLookedAll = 128;  // End: nothing was left unseen
constexpr Flags kNews = 256;       // a thread: something has come that its rank has not looked at
constexpr Flags kAllFlags = 511;

struct Entry {
    Topic topic{};
    What what{};
    State state{};
    Flags flags = 0;
    char name[32] = {};   // a thread: the call. A message: its path, if it is chosen
    int64_t since_ns = 0; // CLOCK_MONOTONIC; 0: not known
    int32_t peer = 0;     // a rank, or any
    int32_t tag = 0;      // or any
    uint64_t bytes = 0;   // a stream or an event: its handle
    uint64_t thread = 0;  // its system's number
    uint32_t slot = 0;
    uint32_t number = 0; // a thread: of all that it waits for
    uint64_t done = 0;   // a thread: how much its rank has moved so far
    uint64_t all = 0;

    void call_it(const char* text) { std::strncpy(name, text, sizeof name - 1); }
    bool has(Flags flag) const { return (flags & flag) != 0; }
};
static_assert(std::is_trivially_copyable_v<Entry> && sizeof(Entry) == 104);

constexpr int32_t kAnySource = -1;
constexpr int32_t kAnyTag = -1;

enum class Phase : uint32_t { kStarting = 0, kRunning, kBusy, kFinalizing };
constexpr uint32_t kPhases = 4;

// How many there are, those that were left out included.
struct End {
    Phase phase{}; // kBusy: the engine's lock was not to be had, so only calls are known
    uint32_t threads = 0;
    uint32_t unawaited = 0;
    uint32_t unexpected = 0;
    uint32_t held = 0;
    uint32_t graphs = 0;
    Flags flags = 0;
};
static_assert(sizeof(End) == 28);

} // namespace gpurun::platform::standing
