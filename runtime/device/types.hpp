// What the device contract speaks of: handles, counters, identities, and what an address is.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

// Those of CUDA and of the public header; no other pointer becomes a handle. Nobody but cuda/ has more of them.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace gpurun::device {

// What a program and the runtime hold of something on the device. Opaque: a CUstream, CUevent or CUgraphExec, or a
// number of the emulated device's, which names one thing for ever (emulated/handle_numbers.hpp). A null stream is the
// default stream.
template <typename Native>
struct Handle {
    constexpr Handle() = default;
    constexpr explicit Handle(Native* handle) : native(handle) {}
    bool operator==(const Handle&) const = default;
    const void* address() const { return native; } // for people

    Native* native = nullptr;
};
using Stream = Handle<CUstream_st>;
using Event = Handle<CUevent_st>;
using Graph = Handle<CUgraphExec_st>;

// A monotone number in host memory that streams and CPUs of several processes write and await. Lives in memory
// given to register_host(). Waiting is for "at least". A CPU that writes must go through platform::store_and_wake()
// so that sleeping streams of emulated devices wake.
using Counter = std::atomic<uint64_t>;
static_assert(sizeof(Counter) == 8 && Counter::is_always_lock_free);

// Which implementation a device is of. Further ones take a number of their own: Kind{3}.
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
    // How many blocks of kernels may spin on the device at a time and leave room for whatever they wait for
    // (transfer/pool/kernel_budget.hpp). take_mail() has mail_blocks(), a copy_fenced() copy_blocks(), take_mails() one
    // for each mail, all others one. Of no use where the device has no capability that spins.
    uint32_t spinning_blocks = 64;
    // A program that does not call gpurun takes at least so long to enqueue a kernel or a copy in a stream.
    int64_t shortest_enqueue_ns = 200;
    // release_peer() ends waits on a dead process's events. Where it cannot, such a stream stays blocked for ever:
    // it must not be waited for, and nothing may be enqueued in it.
    bool releases_events = true;
};

// With how many blocks a kernel of ours moves so many bytes, of which each block has its share.
constexpr uint32_t blocks_for(size_t bytes, size_t bytes_of_block, uint32_t most) {
    return static_cast<uint32_t>(std::clamp<size_t>((bytes + bytes_of_block - 1) / bytes_of_block, 1, most));
}

enum class Placement : uint8_t {
    kPageable, // ordinary host memory: streams reach it only through call_host()
    kPinned,   // host memory that streams copy from and to
    kDevice,   // memory of this device
    kManaged,  // migrates; streams and CPU reach it; cannot be exported
    // Memory of another device that this process uses: streams reach it only through OtherDevices, the CPU not at all;
    // cannot be exported. Found only by devices that have that capability.
    kElsewhere,
};

// What an address is. `id` never names two allocations in the life of a process.
struct Buffer {
    Placement placement = Placement::kPageable;
    bool exportable = false;
    bool read_only = false; // device memory that is mapped so
    void* base = nullptr;   // of the whole allocation, or of what is exported; unknown (null) for pageable memory
    size_t size = 0;
    uint64_t id = 0;
    bool in_pieces = false; // of cuMemMap(): base and size are those of the pieces that the bytes lie in
};

// What another process needs to map an allocation, or to wait for an event. Plain bytes, sent as they are.
struct MemoryHandle {
    std::array<std::byte, 64> bytes;
};
struct EventHandle {
    std::array<std::byte, 64> bytes;
};

} // namespace gpurun::device
