// The device contract: what the runtime asks of a GPU, and the one place that says what it may rely on.
//
// The core is this class, and every device implements it: memory, streams, events, what two processes share of them.
// What only some devices can do is a capability, an interface of its own (capability/): whoever needs one asks for it
// where it chooses, and chooses otherwise where it is absent. Jobs run on a device that has the core alone.
//
// Two implementations, chosen once at init (open.hpp): cuda/ (the only CUDA code of the project) and emulated/ (threads
// and memfd; the same protocol code runs above it without a GPU). tests/conformance runs one suite on both, and on the
// emulated device's core.
//
// A Device belongs to one process and one GPU. Every function may be called from any thread, except from inside a
// function that call_host() runs. "Enqueue" functions return without waiting for the device and take effect in
// stream order. Nothing here knows of ranks; a `peer` is a number that the caller chose in add_peer().
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"

#include <vector>

namespace gpurun::device {

class Channels;
class Clock;
class Counters;
class FencedCopies;
class FusedReduce;
class Graphs;
class Mails;
class OrderedMemory;
class OtherDevices;
class Reduce;

class Device {
  public:
    virtual ~Device() = default;
    Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    virtual const Info& info() const = 0;

    // ---- capabilities -------------------------------------------------------------------------------------
    // Null where the device lacks one; always the same. What needs another comes only with it: fenced copies and mails
    // with counters; channels with counters, mails and graphs; fused reductions with counters, mails and reductions.
    virtual Counters* counters() { return nullptr; }
    virtual FencedCopies* fenced_copies() { return nullptr; }
    virtual Mails* mails() { return nullptr; }
    virtual Graphs* graphs() { return nullptr; }
    virtual Channels* channels() { return nullptr; }
    virtual OrderedMemory* ordered_memory() { return nullptr; }
    virtual OtherDevices* other_devices() { return nullptr; }
    virtual Clock* clock() { return nullptr; }
    virtual Reduce* reduce() { return nullptr; }
    virtual FusedReduce* fused_reduce() { return nullptr; }

    // At least so many processes use the device: of the room that all have, each may keep a part while it waits.
    virtual void share_among(uint32_t processes) { (void)processes; }

    // ---- the calling thread -------------------------------------------------------------------------------
    // Makes the device current for the calling thread, where that means something (cudaSetDevice).
    virtual base::Result<void> make_current() = 0;

    // ---- peers --------------------------------------------------------------------------------------------
    // The descriptor that peers need to import from this device, or -1 if none is needed. Owned by the device.
    virtual int shareable_fd() const = 0;
    // Must come before the first import from `peer`. Takes ownership of `fd` (-1 if the peer has none).
    virtual base::Result<void> add_peer(int peer, const Identity& identity, int fd) = 0;
    // The peer has died: waits on its events, present and future, are released, if info().releases_events (waits on
    // counters are released by whoever poisons the counter).
    virtual void release_peer(int peer) = 0;
    // The number may be another peer's from now on. Nothing if there is no such peer. REQUIRES: nothing of it is
    // imported any more, and no stream waits on its events.
    virtual void forget_peer(int peer) = 0;
    // Whether streams of this device can copy from memory imported from `identity`, and if not, why not.
    virtual base::Result<void> can_reach(const Identity& identity) = 0;

    // ---- memory -------------------------------------------------------------------------------------------
    virtual base::Result<void*> allocate(size_t bytes) = 0;        // exportable, aligned to at least 256 bytes
    virtual base::Result<void> free(void* pointer) = 0;            // kBuffer if it is no start of an allocation
    virtual base::Result<void*> allocate_pinned(size_t bytes) = 0; // exportable, if there are not very many
    virtual base::Result<void> free_pinned(void* pointer) = 0;
    // free() and free_pinned() may wait for the device, and block all other calls of the process meanwhile.
    // free_later(), for either kind of memory, does not: give_back() frees it.
    virtual base::Result<void> free_later(void* pointer) = 0;
    virtual void give_back() = 0; // and what Graphs::destroy_graph_later() has left
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

    // REQUIRES buffer.exportable. A handle stays valid until the allocation is freed; of memory in pieces, until one of
    // these is unmapped.
    virtual base::Result<MemoryHandle> export_memory(const Buffer& buffer) = 0;
    // The address, here, of the allocation's base. Opening the same allocation twice without closing is refused
    // by some drivers: callers keep one mapping for each allocation. May take 20 ms, and for host memory 0.6 s for each
    // GiB, but waits for no stream. For host memory, and memory in pieces, it asks the exporter's process, for 5 s at
    // most if that is stopped. A mapping outlives its exporter. Freeing exported memory while it is mapped is allowed;
    // its contents are then undefined. Host memory is mapped as pinned memory.
    virtual base::Result<void*> import_memory(int peer, const MemoryHandle& handle) = 0;
    // Of the peer's memory in pieces: what is mapped here while the peer has other pieces at its address by now, as the
    // last import_memory() has shown. Each is told once.
    virtual std::vector<void*> take_stale_imports(int peer) {
        (void)peer;
        return {};
    }
    // REQUIRES no copy from it to be in flight. May wait for the device, as free() may.
    virtual base::Result<void> close_memory(void* imported) = 0;

    // ---- streams ------------------------------------------------------------------------------------------
    virtual base::Result<Stream> create_stream() = 0;
    // A stream of high priority, where the device has such: its work goes before work of other streams that has not
    // begun.
    virtual base::Result<Stream> create_urgent_stream() { return create_stream(); }
    // Creates urgent streams for later, where creating one may wait for the whole device: taking a reserved one does
    // not.
    virtual base::Result<void> reserve_urgent_streams(size_t count) {
        (void)count;
        return {};
    }
    // So many are not wanted any more, taken or not.
    virtual void release_reserved_streams(size_t count) { (void)count; }
    virtual base::Result<Stream> take_reserved_stream() { return create_urgent_stream(); } // makes one if none is left
    virtual base::Result<void> destroy_stream(Stream stream) = 0; // waits for its work; kStream if it is none
    // Whether it is being captured into a graph (false without Graphs); kStream unless it is a stream of this device.
    virtual base::Result<bool> is_captured(Stream stream) = 0;
    virtual base::Result<void> synchronize(Stream stream) = 0;
    virtual base::Result<bool> query(Stream stream) = 0;
    // No other stream of the process ever has the same, not even one whose handle is the same later, or means another
    // stream in each thread. kStream while the stream is captured; the capture may then fail.
    virtual base::Result<uint64_t> name(Stream stream) = 0;
    virtual base::Result<void> synchronize_all() = 0;

    // ---- enqueue ------------------------------------------------------------------------------------------
    // Both buffers are pinned, device, managed or imported memory; at least one is not host memory.
    virtual base::Result<void> copy(void* destination, const void* source, size_t bytes, Stream stream) = 0;
    virtual base::Result<void> fill(void* destination, int value, size_t bytes, Stream stream) = 0;
    // `function` runs on some host thread, in stream order. It must not call the device. One that blocks may hold up
    // those of all streams.
    virtual base::Result<void> call_host(Stream stream, void (*function)(void*), void* argument) = 0;

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

} // namespace gpurun::device
