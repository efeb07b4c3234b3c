// The device contract: what the runtime asks of a GPU, and the one place that says what it may rely on.
//
// Two implementations, chosen once at init: cuda/ (the only CUDA code of the project) and emulated/ (threads and
// memfd; the same protocol code runs above it without a GPU). tests/conformance runs one suite on both.
//
// A Device belongs to one process and one GPU. Every function may be called from any thread, except from inside a
// function that call_host() runs. "Enqueue" functions return without waiting for the device and take effect in
// stream order. Nothing here knows of ranks; a `peer` is a number that the caller chose in add_peer().
#pragma once

#include "base/status.hpp"
#include "platform/operation_times.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace gpurun::device {

// Opaque: a CUstream or CUevent, or the emulated device's own object. A null stream is the default stream.
struct Stream {
    void* native = nullptr;
    bool operator==(const Stream&) const = default;
};
struct Event {
    void* native = nullptr;
    bool operator==(const Event&) const = default;
};
// Opaque: a CUgraphExec, or the emulated device's own object.
struct Graph {
    void* native = nullptr;
};

// A monotone number in host memory that streams and CPUs of several processes write and await. Lives in memory
// given to register_host(). Waiting is for "at least". A CPU that writes must go through platform::store_and_wake()
// so that sleeping streams of emulated devices wake.
using Counter = std::atomic<uint64_t>;
static_assert(sizeof(Counter) == 8 && Counter::is_always_lock_free);

enum class Kind : uint32_t { kCuda = 1, kEmulated = 2 };

// Enough to tell whether two ranks share a device, and whether one can reach the other. Travels between ranks.
struct Identity {
    Kind kind;
    uint32_t ordinal;
    std::array<uint8_t, 16> uuid;
    bool operator==(const Identity&) const = default;
};
static_assert(sizeof(Identity) == 24);

struct Info {
    Identity identity;
    size_t memory_bytes = 0;
    std::string name;
    std::string uuid;       // for people: GPU-... or EMU-...
    std::string pci_bus_id; // empty on emulated devices
    // How much may wait on the device at a time, in take_mail() and so on, and leave room for what it waits for. A
    // copy_fenced() counts kCopyWait, take_mails() kMailsWait, everything else 1.
    uint32_t waiting_room = 16;
    bool counters = true; // streams can write and await counters; else only events order them
    // release_peer() ends waits on a dead process's events. Where it cannot, such a stream stays blocked for ever:
    // it must not be waited for, and nothing may be enqueued in it.
    bool releases_events = true;
};

enum class Placement : uint32_t {
    kPageable, // ordinary host memory: streams reach it only through call_host()
    kPinned,   // host memory that streams copy from and to
    kDevice,   // memory of this device
    kManaged,  // migrates; streams and CPU reach it; cannot be exported
    // Memory of another device that this process uses: streams reach it only through copy_elsewhere() and
    // fill_elsewhere(), the CPU not at all; cannot be exported.
    kElsewhere,
};

// What an address is. `id` never names two allocations in the life of a process.
struct Buffer {
    Placement placement = Placement::kPageable;
    bool exportable = false;
    bool read_only = false; // device memory that is mapped so
    void* base = nullptr;   // of the whole allocation; unknown (null) for pageable memory
    size_t size = 0;
    uint64_t id = 0;
};

// What another process needs to map an allocation, or to wait for an event. Plain bytes, sent as they are.
struct MemoryHandle {
    std::array<std::byte, 64> bytes;
};
struct EventHandle {
    std::array<std::byte, 64> bytes;
};

// Where to say when an operation ran. In memory as of counters, for one operation; by the clock of read_clock().
using Times = platform::OperationTimes;

// A small message that crosses in one hop: the source's stream writes it into words of the target's device memory that
// say of themselves when they have come, and the target's stream reads them there.
struct Mail {
    std::byte* words = nullptr; // mail_words_bytes() of the target's memory, as this process sees it, aligned to 16
    size_t bytes = 0;           // of the message, not 0
    uint32_t mark = 0;          // never 0; differs from that of all mails that were in the words before
    Counter* sent = nullptr;    // reads `value` once the words are written, and the source's buffer may be
    Counter* taken = nullptr;   // reads `value` once the target has read what it takes of the words
    uint64_t value = 0;         // the words are free for another mail once both counters read it
    uint32_t* ticket = nullptr; // device memory of this process for one operation at a time: 0 before and after
    Times* times = nullptr;     // of this side's operation; null: nobody wants to know
};
constexpr size_t mail_words_bytes(size_t bytes) { return (bytes + 7) / 8 * 16; }

// Several mails in one operation; each has its own edges, and needs no ticket.
struct OutgoingMail {
    Mail mail;
    const void* source = nullptr;
};
struct IncomingMail {
    Mail mail;
    void* destination = nullptr;
    size_t bytes = 0; // that are taken
};
constexpr size_t kMostMails = 32;        // in one operation
constexpr size_t kSmallMailBytes = 4096; // the largest of them
constexpr uint32_t kMailsWait = 4;

// A copy between two edges, in one operation of the stream where the device can do that.
struct FencedCopy {
    void* destination = nullptr; // both aligned to 16 bytes; the number of bytes may be odd
    const void* source = nullptr;
    size_t bytes = 0;
    Counter* before = nullptr; // the copy starts once it reads `value`; null: at once
    Counter* after = nullptr;  // reads `value` once the copy is done
    uint64_t value = 0;
    uint32_t* ticket = nullptr; // as in Mail
    // Device memory of this process that reads less than `value`; with `before`, it reads `value` afterwards.
    uint64_t* gate = nullptr;
    Times* times = nullptr; // as in Mail; without `before`, began is left as it is
};

constexpr uint32_t kCopyWait = 4;

// Where what graphs repeat says when each of its runs was. One for all channels of a process.
struct RunLog {
    uint64_t* taken = nullptr;             // device memory of this process: places asked for so far
    platform::RunTimes* places = nullptr;  // in memory as of counters, as the next
    uint64_t room = 0;                     // of places
    std::atomic<uint64_t>* lost = nullptr; // about how many came when there was none left
};

// What a side of a channel says of a wait that takes long, while it takes; for whoever looks. In memory as of counters.
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
constexpr size_t kChannelPlaces = 2; // runs that the source can be ahead of the target
constexpr size_t kLaneBytes = 4096;  // a lane's part of a message
constexpr size_t kLargestInChannel = 64 * 1024;
constexpr size_t kMostLanes = kLargestInChannel / kLaneBytes;
constexpr size_t channel_lanes(size_t bytes) { return bytes == 0 ? 1 : (bytes + kLaneBytes - 1) / kLaneBytes; }
constexpr size_t lane_words_bytes(size_t bytes) {
    return mail_words_bytes(bytes == 0 ? 1 : bytes < kLaneBytes ? bytes : kLaneBytes);
}
constexpr size_t channel_place_bytes(size_t bytes) { return channel_lanes(bytes) * lane_words_bytes(bytes); }

class Device {
  public:
    virtual ~Device() = default;
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    virtual const Info& info() const = 0;

    // Makes the device current for the calling thread, where that means something (cudaSetDevice).
    virtual base::Result<void> make_current() = 0;

    // What Times count by, beside the CPU's clock. Waits for the device a little; kDevice if it has no room for that.
    virtual base::Result<platform::ClockReading> read_clock() = 0;

    // ---- peers --------------------------------------------------------------------------------------------
    // The descriptor that peers need to import from this device, or -1 if none is needed. Owned by the device.
    virtual int shareable_fd() const = 0;
    // Must come before the first import from `peer`. Takes ownership of `fd` (-1 if the peer has none).
    virtual base::Result<void> add_peer(int peer, const Identity& identity, int fd) = 0;
    // The peer has died: waits on its events, present and future, are released, if info().releases_events (waits on
    // counters are released by whoever poisons the counter).
    virtual void release_peer(int peer) = 0;
    // Whether streams of this device can copy from memory imported from `identity`, and if not, why not.
    virtual base::Result<void> can_reach(const Identity& identity) = 0;

    // ---- memory -------------------------------------------------------------------------------------------
    virtual base::Result<void*> allocate(size_t bytes) = 0; // exportable, aligned to at least 256 bytes
    virtual base::Result<void> free(void* pointer) = 0;     // kBuffer if it is no start of an allocation
    virtual base::Result<void*> allocate_ordered(size_t bytes, Stream stream) = 0; // never exportable
    virtual base::Result<void> free_ordered(void* pointer, Stream stream) = 0;
    virtual base::Result<void*> allocate_pinned(size_t bytes) = 0;
    virtual base::Result<void> free_pinned(void* pointer) = 0;
    // Both of these may wait for the device, and no other call of the process gets through meanwhile. Where they do,
    // this one, for either kind, leaves it to give_back().
    virtual base::Result<void> free_later(void* pointer) = 0;
    virtual void give_back() = 0; // and graphs
    // Makes host memory usable for counters and for stream copies. `memory` is page-aligned.
    virtual base::Result<void> register_host(void* memory, size_t bytes) = 0;
    virtual base::Result<void> unregister_host(void* memory) = 0;

    // What [pointer, pointer + bytes) is. kBuffer, with what to do, if it lies in device memory that was freed, reaches
    // past its allocation or into what is not mapped, or that no device of this process has access to. Host memory that
    // is pinned only in part is pageable.
    virtual base::Result<Buffer> describe(const void* pointer, size_t bytes) = 0;
    // As long as this reads the same (acquire), a page in which describe() has found host memory has nothing else. Null
    // where that can change without the device's knowing.
    virtual const std::atomic<uint64_t>* host_memory_changes() const { return nullptr; }

    // REQUIRES buffer.exportable. A handle stays valid until the allocation is freed.
    virtual base::Result<MemoryHandle> export_memory(const Buffer& buffer) = 0;
    // The address, here, of the allocation's base. Opening the same allocation twice without closing is refused
    // by some drivers: callers keep one mapping for each allocation. May take 20 ms, but waits for no stream. A mapping
    // outlives its exporter. Freeing exported memory while it is mapped is allowed; its contents are then undefined.
    virtual base::Result<void*> import_memory(int peer, const MemoryHandle& handle) = 0;
    // REQUIRES no copy from it to be in flight. May wait for the device, as free() may.
    virtual base::Result<void> close_memory(void* imported) = 0;

    // ---- streams ------------------------------------------------------------------------------------------
    virtual base::Result<Stream> create_stream() = 0;
    // What is enqueued there goes before what has not begun in other streams, where the device can do that.
    virtual base::Result<Stream> create_urgent_stream() = 0;
    // Makes urgent streams for later: making one may wait for what other streams wait for, taking one of these does
    // not.
    virtual base::Result<void> reserve_urgent_streams(size_t count) = 0;
    virtual base::Result<Stream> take_reserved_stream() = 0;      // makes one if none is left
    virtual base::Result<void> destroy_stream(Stream stream) = 0; // waits for its work; kStream if it is none
    // Whether it is being captured into a graph; kStream unless it is a stream of this device.
    virtual base::Result<bool> is_captured(Stream stream) = 0;
    virtual base::Result<void> synchronize(Stream stream) = 0;
    virtual base::Result<bool> query(Stream stream) = 0;
    // No other stream of the process ever has the same, not even one whose handle is the same later, or means another
    // stream in each thread.
    virtual base::Result<uint64_t> name(Stream stream) = 0;
    virtual base::Result<void> synchronize_all() = 0;

    // ---- enqueue ------------------------------------------------------------------------------------------
    // Both buffers are pinned, device, managed or imported memory; at least one is not host memory.
    virtual base::Result<void> copy(void* destination, const void* source, size_t bytes, Stream stream) = 0;
    virtual base::Result<void> fill(void* destination, int value, size_t bytes, Stream stream) = 0;
    // One of the two is kElsewhere, the other pinned.
    virtual base::Result<void> copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) = 0;
    virtual base::Result<void> fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) = 0;
    // `function` runs on some host thread, in stream order. It must not call the device. One that blocks may hold up
    // those of all streams.
    virtual base::Result<void> call_host(Stream stream, void (*function)(void*), void* argument) = 0;
    // The counter reads `value` after everything before in the stream is visible to whoever reads it.
    virtual base::Result<void> write_counter(Stream stream, Counter* counter, uint64_t value) = 0;
    // What follows in the stream starts once the counter reads `value` or more, and sees what was visible then.
    virtual base::Result<void> await_counter(Stream stream, Counter* counter, uint64_t value) = 0;
    // `where`, a part of Times, reads what the device's clock does once everything before in the stream is over.
    virtual base::Result<void> write_time(Stream stream, std::atomic<int64_t>* where) = 0;

    // Enqueue. REQUIRES info().counters. What waits in these keeps a part of the device busy until it is released, so
    // that what it waits for must be able to run beside it (info().waiting_room, transfer/turns.hpp). `source` and
    // `destination` are pinned, device or managed memory.
    virtual base::Result<void> put_mail(const Mail& mail, const void* source, Stream stream) = 0;
    // Waits for the words, takes the first `bytes` of the message. If `sent` is poisoned and had not come to its value,
    // it ends without them. `seen`: `destination` is written, for everybody, before `taken` reads its value.
    virtual base::Result<void> take_mail(const Mail& mail, void* destination, size_t bytes, bool seen,
                                         Stream stream) = 0;
    // All of them, up to kMostMails. Those that are taken are seen, and taken as they come: none waits for another.
    virtual base::Result<void> put_mails(std::span<const OutgoingMail> mails, Stream stream) = 0;
    virtual base::Result<void> take_mails(std::span<const IncomingMail> mails, Stream stream) = 0;
    // await_counter(), by something that looks at the counter all the time: what follows starts sooner.
    virtual base::Result<void> watch_counter(Stream stream, Counter* counter, uint64_t value) = 0;
    // Both buffers are device, managed or imported memory.
    virtual base::Result<void> copy_fenced(const FencedCopy& copy, Stream stream) = 0;

    // ---- graphs -------------------------------------------------------------------------------------------
    // What is enqueued in a captured stream does not run; launch() enqueues all of it, as often as it is called.
    virtual base::Result<void> begin_capture(Stream stream) = 0;
    virtual base::Result<Graph> end_capture(Stream stream) = 0; // kStream if it is not captured, or that failed
    virtual base::Result<void> launch(Graph graph, Stream stream) = 0;
    // Owned if no run of a graph that launch() has enqueued is under way. While it is, none begins: launch() waits.
    virtual std::unique_lock<std::mutex> keep_graphs_still() = 0;
    // kArgument if it is none. Its runs come to their end. May wait for the device, whatever runs there, and no other
    // call of the process gets through meanwhile. Where it does, the next leaves it to give_back().
    virtual base::Result<void> destroy_graph(Graph graph) = 0;
    virtual base::Result<void> destroy_graph_later(Graph graph) = 0;
    // `function` runs once, on any thread, when the graph that `captured` is captured into is gone, with all that was
    // made of it, and no longer runs; when the capture fails; or at once, if this call does. It must not call the
    // device.
    virtual base::Result<void> at_graph_end(Stream captured, void (*function)(void*), void* argument) = 0;

    // Enqueue, made to be captured: one run of each side in a graph, since operations may start before what precedes
    // them has ended. REQUIRES the memory of the channel to be device memory. As with mails, what waits keeps a part of
    // the device busy. `source` and `destination` are pinned, device or managed memory.
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

    // ---- events -------------------------------------------------------------------------------------------
    // An event completes when everything before its latest record in the stream has. Waits latch the latest
    // record at the time of the call; an event that was never recorded counts as complete.
    virtual base::Result<Event> create_event() = 0;
    virtual base::Result<void> destroy_event(Event event) = 0; // kEvent if it is none; imported ones too
    virtual base::Result<void> record(Event event, Stream stream) = 0;
    virtual base::Result<void> await_event(Stream stream, Event event) = 0; // enqueue
    virtual base::Result<bool> query(Event event) = 0;
    // As query(), but what release_peer(), here or in another process, has ended does not count as complete.
    virtual base::Result<bool> truly_complete(Event event) = 0;
    virtual base::Result<void> synchronize(Event event) = 0;

    // Events that other processes may await and query (not record). `event` must be from create_shared_event().
    virtual base::Result<Event> create_shared_event() = 0;
    virtual base::Result<EventHandle> export_event(Event event) = 0;
    virtual base::Result<Event> import_event(int peer, const EventHandle& handle) = 0;
};

// `selector` is GPURUN_DEVICE's value: auto, cuda:UUID, cuda:ORDINAL, emulated:ORDINAL/COUNT. auto is the first
// CUDA device, or one emulated device where CUDA finds none. kDevice, naming the device, if it is not there.
struct Options {
    std::string selector = "auto";
    size_t emulated_memory_bytes = 0; // this process's part
    std::string emulated_peer_access = "all";
    uint64_t emulated_seed = 0;
    int64_t emulated_delay_us = 0;
    std::string emulated_lose;
    // What allocate_ordered() gives: kDevice, or kManaged or kElsewhere as a program may get it from CUDA.
    Placement emulated_ordered = Placement::kDevice;
};
base::Result<std::unique_ptr<Device>> open_device(const Options& options);

} // namespace gpurun::device
