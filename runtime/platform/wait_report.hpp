// A rank's wait report: what its threads wait for, and which messages nobody has received. A rank sends it when gpurun
// asks (wire::Ask), one Entry a message, then End; gpurun makes the hang table of the reports of all ranks.
//
// Flat and of fixed width. A field that has no meaning for a topic is 0. Every list is bounded; End has the lengths
// that the lists would have had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpurun::platform::wait_report {

constexpr size_t kMostThreads = 16;
constexpr size_t kMostAwaited = 16;   // of a thread
constexpr size_t kMostUnawaited = 16; // requests
constexpr size_t kMostUnexpected = 8;
constexpr size_t kMostHeld = 16;
constexpr size_t kMostGraphs = 16; // messages of graphs
constexpr size_t kMostEntries =
    kMostThreads + kMostThreads * kMostAwaited + kMostUnawaited + kMostUnexpected + kMostHeld + kMostGraphs;

enum class Topic : uint32_t {
    kThread = 1, // in a call; the entries of what it waits for follow
    kAwaited,    // something that the last kThread waits for
    kUnawaited,  // a request under way that no thread waits for
    kUnexpected, // a message that no receive has taken
    kHeld,       // a stream that waits for a peer's stream
    kGraph,      // a message of a graph; its run waits for the peer's run
};
constexpr uint32_t kTopics = 6;

enum class What : uint32_t { kNothing = 0, kSend, kReceive, kProbe, kStream, kEvent, kRank };
constexpr uint32_t kWhats = 7;

enum class State : uint32_t {
    kUnknown = 0,
    kNoRoom,    // a send that is not published yet
    kUnmatched, // the peer has not made the call that matches
    kWantsEdge, // matched; waits for a fence slot, all of which are in use
    kCopying,   // a CPU copies it
    kTurn,      // behind other messages in its relay window, or behind others that both ranks copy
    kRelay,     // `done` of `all` chunks have been relayed
    kEdge,      // waits for a fence edge, which is at `done` and has to reach `all`
    kDevice,    // waits for work on the rank's own device
    kInDoubt,   // the peer may have died; the launcher will tell
    kRun,       // waits until the peer's graph has run `all` times
    kLent,      // a loan that the peer has borrowed, and not given back
};
constexpr uint32_t kStates = 12;

using Flags = uint32_t;
constexpr Flags kAny = 1;          // a thread: one of those awaited is enough
constexpr Flags kOnStream = 2;     // the order domain is a stream, not the host
constexpr Flags kCollective = 4;   // a message that a collective is made of
constexpr Flags kCaptured = 8;     // of a graph
constexpr Flags kBackward = 16;    // the edge is the target's to signal, not the source's
constexpr Flags kSynchronous = 32; // a send
constexpr Flags kPeerEdge = 64;    // the edge is the peer's to signal
constexpr Flags kLookedAll = 128;  // End: nothing was left unseen
constexpr Flags kUnread = 256;     // a thread: there are records that its rank has not taken out of its rings
constexpr Flags kLoan = 512;       // a send: its bytes are lent. A rank: it has memory mapped that is to be unmapped
constexpr Flags kHeldBack = 1024;  // what was sent to the peer has not left yet: it is not connected, or is slow
constexpr Flags kJoint = 2048;     // a rank: it is to leave a joint job, and not its own
constexpr Flags kAllFlags = 4095;

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
    uint32_t slot = 0;    // kEdge: of the fence
    uint32_t number = 0;  // a thread: of all that it waits for
    uint64_t done = 0;    // a thread: a count that grows with everything that its rank moves
    uint64_t all = 0;
    // A message: of its communicator; empty if it has none. A thread: of the other job in which it waits; empty: in
    // none. Longer ones are cut.
    char comm_name[32] = {};
    uint32_t comm = 0; // what the communicator's messages are kept apart by; 0: it has all ranks of the job
    uint32_t unused = 0;

    void call_it(const char* text) { std::strncpy(name, text, sizeof name - 1); }
    // Of a communicator's name only what can be printed.
    void name_comm(const char* text) {
        std::strncpy(comm_name, text, sizeof comm_name - 1);
        for (char& each : comm_name)
            each = each == '\0' || (each >= ' ' && each <= '~') ? each : '?';
    }
    bool has(Flags flag) const { return (flags & flag) != 0; }
};
static_assert(std::is_trivially_copyable_v<Entry> && sizeof(Entry) == 144);

constexpr int32_t kAnySource = -1;
constexpr int32_t kAnyTag = -1;

enum class Phase : uint32_t { kStarting = 0, kRunning, kBusy, kFinalizing };
constexpr uint32_t kPhases = 4;

// How many entries there would be of each topic, had none been left out.
struct End {
    Phase phase{}; // kBusy: the engine lock could not be taken, so only the names of calls are known
    uint32_t threads = 0;
    uint32_t unawaited = 0;
    uint32_t unexpected = 0;
    uint32_t held = 0;
    uint32_t graphs = 0;
    Flags flags = 0;
};
static_assert(sizeof(End) == 28);

} // namespace gpurun::platform::wait_report
