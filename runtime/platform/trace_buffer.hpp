// What a rank records for gpurun --trace: fixed-size events in a shared segment that the launcher has made.
//
//   TraceHeader          what the numbers in events mean, and how many have been recorded
//   TraceEvent[capacity] one for each message half, call and thread, in the order in which they began. A call that is
//                        nothing but a message shares its event
//   TraceTimes[...]      when messages moved on the rank's device, by its clock, for as many as there is room for
//   TraceRuns            the same of each run of messages of graphs, whose event is that of their capture
//
// The launcher makes a segment for each rank and reads it once the rank has ended, however it has: what was stored is
// there even after kill -9. It is sparse, so events cost memory shortly before they are recorded. An event is taken by
// one fetch_add and then belongs to whoever has taken it: the thread of a call, or whoever holds the engine lock. It is
// published when it begins, and completed in place, so that what never ends is seen too. A full segment counts what it
// loses. Times are CLOCK_MONOTONIC, which is the same for all processes of a machine: there is nothing to align. Only
// the device's clock differs; the rank reads both clocks when it joins, and when it leaves. What was recorded on
// another machine comes in parts, and is converted to this one's clock.
//
// The device writes the last two parts, so these are pinned from the start, and small.
#pragma once

#include "base/function_ref.hpp"
#include "platform/clock.hpp"
#include "platform/operation_times.hpp"
#include "platform/pages_ahead.hpp"
#include "platform/shared_memory.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace gpurun::platform {

constexpr uint32_t kTraceMagic = 0x63727467; // "gtrc"
constexpr uint32_t kTraceLayout = 8;

enum class TraceKind : uint8_t {
    kNone = 0, // not published: its rank died while it wrote it, or has not got there
    kSend,
    kReceive,
    kCall,
    kThread, // the first event of a thread: `ordinal` is its number in the system
};
constexpr uint8_t kTraceKinds = 5;

// Of TraceEvent::how, above path and reason.
namespace trace_flags {
constexpr uint32_t kOnStream = 1u << 16;     // in a stream's order
constexpr uint32_t kRequest = 1u << 17;      // outlives its call
constexpr uint32_t kSynchronous = 1u << 18;  // not complete before it is matched
constexpr uint32_t kCaptured = 1u << 19;     // part of a graph, recorded when that was captured
constexpr uint32_t kAnySource = 1u << 20;    // as asked for
constexpr uint32_t kAnyTag = 1u << 21;       // as asked for
constexpr uint32_t kTruncated = 1u << 22;    // the message was longer than its buffer
constexpr uint32_t kHeldUp = 1u << 23;       // found no room at first
constexpr uint32_t kHasPath = 1u << 24;      // path and reason are known
constexpr uint32_t kEnqueuedOnly = 1u << 25; // its end is when its copies were enqueued: when they ran nobody knows
constexpr uint32_t kFailed = 1u << 26;       // the peer died, it was cancelled, or a call failed
constexpr uint32_t kHasOrdinal = 1u << 27;   // of a message: its number in its pair is known
constexpr uint32_t kReadByPeer = 1u << 28;   // of a send: the target's CPU had read it before it answered
constexpr uint32_t kHasBytes = 1u << 29;     // of a call: it has the size of a message; else `ordinal` is a count
constexpr uint32_t kIsCall = 1u << 30;       // of a message: it is all that its call did, and ended with it
} // namespace trace_flags

struct alignas(64) TraceEvent {
    std::atomic<uint8_t> kind; // a TraceKind, stored last (release) by who records; pairs with the launcher's load
    uint8_t call;              // of kCall, and with kIsCall: index in TraceHeader::calls
    uint16_t thread;           // that began it: the number of its kThread event
    std::atomic<uint32_t> how; // path, reason << 8, trace_flags
    int32_t tag;
    int32_t peer;                          // a rank; negative: any, or none
    uint32_t context;                      // by which messages are kept apart
    std::atomic<uint32_t> posted_after_ns; // of a send: from its begin until its record was published; saturates
    uint64_t bytes;                        // the message's true length
    uint64_t ordinal;                      // of a message: its number in the order of its pair, which both sides count
    int64_t begin_ns;
    std::atomic<int64_t> matched_ns; // 0: not yet, or not known on this side
    std::atomic<int64_t> end_ns;     // 0: not yet
};
static_assert(sizeof(TraceEvent) == 64);

struct TraceTimes {
    OperationTimes times;
    std::atomic<uint64_t> event; // the index of its message's, and 1: stored last (release) by who takes it
};
static_assert(sizeof(TraceTimes) == 32);

// RunTimes follow, whose name is the index of their message's event, and 1.
struct alignas(64) TraceRuns {
    std::atomic<uint64_t> lost; // runs for which there was no room: about, until the rank leaves
};

// The name of a communicator, the id of which is half its context. Names that are given when there is no room are not
// in the trace.
struct TraceCommunicator {
    std::atomic<uint32_t> id; // 0: none. Stored (release) behind the name, by the rank; read (acquire) after its end
    std::array<char, 28> name;
};
constexpr size_t kTracedCommunicators = 32;

constexpr size_t kTracedRoutes = 256;

// Texts are written by the rank when it joins, so that the launcher need not know what paths and calls there are.
struct TraceHeader {
    uint32_t magic;
    uint32_t layout;
    uint64_t capacity; // events; by the launcher, as the two before it and the next
    uint64_t timed_capacity;
    uint64_t runs_capacity; // 0: there are no TraceRuns either
    // By the number of a route: its path, and why it was chosen.
    std::array<std::array<char, 16>, kTracedRoutes> paths;
    std::array<std::array<char, 64>, kTracedRoutes> reasons;
    std::array<std::array<char, 32>, 128> calls;
    uint32_t copy_context;        // of copies inside a rank, which go the way of a message to itself
    uint32_t collective_contexts; // a bit that the contexts of collectives have
    uint32_t world;               // the id of the communicator of all ranks
    std::array<TraceCommunicator, kTracedCommunicators> communicators;
    alignas(64) std::atomic<uint64_t> taken; // events ever begun: what is beyond the capacity is lost
    std::atomic<uint32_t> threads;
    std::atomic<uint64_t> timed;        // messages that asked for times
    std::array<ClockReading, 2> clocks; // of the rank's device: when it joined, when it left
};
constexpr size_t kTraceHeaderBytes = 28672;
static_assert(sizeof(TraceHeader) <= kTraceHeaderBytes);

class TraceBuffer {
  public:
    static constexpr uint64_t kMostEvents = uint64_t{1} << 28;

    // Launcher: a new segment, with times for `timed` messages, and for `runs` of those of graphs.
    static base::Result<TraceBuffer> create(uint64_t events, uint64_t timed = 0, uint64_t runs = 0);
    // Rank: takes the descriptor of one; kVersion if its layout is not ours.
    static base::Result<TraceBuffer> attach(UniqueFd fd);

    int fd() const { return fd_.get(); }
    TraceHeader& header() const { return *reinterpret_cast<TraceHeader*>(mapping_.data()); }

    // ---- the rank
    // A new event that begins now, not yet published; null if there is no room.
    TraceEvent* begin() {
        const uint16_t thread = thread_number();
        TraceEvent* event = take();
        if (event == nullptr)
            return nullptr;
        event->thread = thread;
        event->begin_ns = now_ns();
        return event;
    }
    static void publish(TraceEvent& event, TraceKind kind) {
        event.kind.store(static_cast<uint8_t>(kind), std::memory_order_release);
    }

    // The part that the device writes, for who registers it there. Whole pages, which stay where they are.
    std::span<std::byte> timed_memory() const {
        return {mapping_.data() + timed_offset_, mapping_.size() - timed_offset_};
    }
    struct Runs {
        TraceRuns* header;
        RunTimes* first;
        uint64_t capacity; // 0: none, and nothing else has meaning
    };
    Runs runs_of_rank() const { return {runs_header(), all_runs(), times_messages_ ? runs_capacity_ : 0}; }
    static_assert(kMostEvents < UINT32_MAX);
    uint32_t name_of_runs(const TraceEvent& event) const { return static_cast<uint32_t>(&event - events()) + 1; }
    // It is registered: from here on there are times.
    void time_messages() { times_messages_ = true; }
    // Null if there are none, or no room.
    OperationTimes* take_times(const TraceEvent& event) {
        if (!times_messages_)
            return nullptr;
        // relaxed: it only shares out places
        const uint64_t index = header().timed.fetch_add(1, std::memory_order_relaxed);
        if (index >= timed_capacity_)
            return nullptr;
        TraceTimes& taken = all_times()[index];
        taken.event.store(static_cast<uint64_t>(&event - events()) + 1, std::memory_order_release);
        return &taken.times;
    }

    // ---- the launcher, after the rank has ended
    uint64_t recorded() const;
    uint64_t lost() const;
    // REQUIRES: index < recorded(). Null if it was not published.
    const TraceEvent* event(uint64_t index) const;
    uint64_t untimed() const; // messages that found no room for their times
    // Those that were taken, as they are.
    std::span<const TraceTimes> times() const;
    // All, taken or not.
    std::span<const RunTimes> runs() const { return {all_runs(), runs_capacity_}; }
    uint64_t lost_runs() const;

    // ---- between launchers of several machines, after the rank has ended
    struct Part {
        size_t offset = 0;
        std::string_view bytes; // empty: there is nothing more
    };
    // The first that has been written to at `offset` or behind it, up to `most` bytes of it.
    Part part_from(size_t offset, size_t most) const;
    // False if a segment with this room has no such part.
    bool put(const Part& part);
    // Every time that was read from the clock becomes what `to` says.
    void convert_times(base::FunctionRef<int64_t(int64_t)> to);

  private:
    struct Room {
        uint64_t events;
        uint64_t timed;
        uint64_t runs;

        bool sound() const { return events <= kMostEvents && timed <= kMostEvents && runs <= kMostEvents; }
        size_t timed_offset() const;
        size_t runs_offset() const;
        size_t bytes() const;
    };
    TraceBuffer(UniqueFd fd, Mapping mapping, const Room& room);

    TraceEvent* events() const { return reinterpret_cast<TraceEvent*>(mapping_.data() + kTraceHeaderBytes); }
    TraceTimes* all_times() const { return reinterpret_cast<TraceTimes*>(mapping_.data() + timed_offset_); }
    TraceRuns* runs_header() const { return reinterpret_cast<TraceRuns*>(mapping_.data() + runs_offset_); }
    RunTimes* all_runs() const {
        return reinterpret_cast<RunTimes*>(mapping_.data() + runs_offset_ + sizeof(TraceRuns));
    }
    static constexpr uint64_t kEventsOfStep = PagesAhead::kStepBytes / sizeof(TraceEvent);
    TraceEvent* take() {
        // relaxed: it only shares out places
        const uint64_t index = header().taken.fetch_add(1, std::memory_order_relaxed);
        if (index >= capacity_)
            return nullptr;
        if (pages_ != nullptr && index % kEventsOfStep == 0) [[unlikely]]
            pages_->wanted(kTraceHeaderBytes + (index + kEventsOfStep) * sizeof(TraceEvent));
        TraceEvent* const event = &events()[index];
        __builtin_prefetch(event + 1, 1); // nobody has written there yet
        return event;
    }
    uint16_t thread_number() {
        if (thread_.buffer != this) [[unlikely]]
            announce_thread();
        return thread_.number;
    }
    void announce_thread();

    // What the calling thread is called in the buffer that it has recorded in last.
    struct Thread {
        const TraceBuffer* buffer = nullptr;
        uint16_t number = 0;
    };
    static constinit thread_local Thread thread_;

    UniqueFd fd_;
    Mapping mapping_;
    // As they were made: a rank that writes where it should not must not mislead the launcher.
    uint64_t capacity_ = 0;
    uint64_t timed_capacity_ = 0;
    uint64_t runs_capacity_ = 0;
    size_t timed_offset_ = 0;
    size_t runs_offset_ = 0;
    bool times_messages_ = false;       // set before the rank's first message
    std::unique_ptr<PagesAhead> pages_; // of a rank
};

} // namespace gpurun::platform
