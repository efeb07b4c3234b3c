// What two ranks say to each other through a record ring: one Record, and a payload behind it.
//
// A message starts with one of three records, in the order in which it was sent:
//   kInline   the bytes are the payload: host memory, small
//   kSlot     the bytes are, or will be in stream order, in an eager buffer of the pair or in the target's mailbox
//   kRequest  the bytes stay with the source until the target has a receive for them
//   kCaptured  of a graph: how it will cross whenever the graphs run, by a channel that the source has allotted. The
//             slot says where: `slot` and `value` in the memory of target and source, `valid` whether the bytes stay
//             with the source: 1 where they are, 2 in a slab
// A request is answered by the target:
//   kPulled   direct: the target has enqueued the copy; the source may reuse its buffer when `slot` is reached. Without
//             a slot, the target's CPU has read the source's memory
//   kGrant    relay: the source is to fill chunks of a pool, the target drains them
//   kShare    the target's CPU reads, and the source may write the rest; a kPulled comes at the end
// A request that was to have an edge, but came without one, since all were in use, is asked for it when it is matched:
//   kWantEdge  the target has a receive for the request, and would pull
//   kEdge      the source: here is its edge
// and around them:
//   kSlab     where the source's device pool is, before its first chunk
//   kRevoke   the source frees an allocation: unmap it
//   kChannelEnded  the target's graph of a captured message is gone
#pragma once

#include "device/device.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpurun::transfer {

enum class RecordKind : uint16_t {
    kNone = 0, // nothing was published here
    kSkip,     // the rest of the ring up to its end is unused
    kInline,
    kSlot,
    kRequest,
    kPulled,
    kGrant,
    kShare,
    kWantEdge,
    kEdge,
    kSlab,
    kRevoke,
    kCaptured,
    kChannelEnded,
};

enum class Pool : uint32_t { kHost = 0, kSlab = 1 };

// Messages of graphs match among themselves.
constexpr uint32_t kCapturedContexts = uint32_t{1} << 31;

// By what a message is matched, and its length.
struct Envelope {
    uint32_t context; // the communicator's; collectives have their own
    int32_t tag;
    uint64_t bytes;
};

// Where a source's buffer lies, for the target to choose a path from.
struct SourceBuffer {
    uint32_t placement; // device::Placement
    uint16_t exportable;
    uint16_t ready;              // a CPU may read it at once: host memory in the host's order
    device::MemoryHandle handle; // with exportable
    uint64_t allocation_id;
    uint64_t allocation_base; // address in the source's process
    uint64_t allocation_bytes;
    uint64_t offset;  // of the message in the allocation
    uint64_t address; // of the message, used when a rank sends to itself, or a CPU reads the source's memory
};

struct SlotValue {
    uint32_t slot;
    uint32_t valid;
    uint64_t value;
};

struct Record {
    RecordKind kind;
    uint16_t lap; // the ring's (record_ring.hpp)
    uint32_t payload_bytes;
    uint64_t serial; // names a request in what follows it
    Envelope envelope;
    SlotValue slot;
    union {
        SourceBuffer source; // kRequest
        struct {             // kGrant
            Pool pool;
            uint32_t reason; // transfer::Reason
            uint64_t bytes;  // that move: less than the envelope's when the receive is shorter
            uint64_t chunk_bytes;
        } grant;
        struct {           // kPulled
            uint32_t path; // transfer::Path
            uint32_t reason;
            uint64_t bytes;      // that are read: of none, the source need not wait for the target
            uint64_t unreadable; // 1: the source's memory is gone, and nothing was read
            uint64_t ends;       // 1: the backward edge was signalled, or its signal is enqueued
        } pulled;
        struct {              // kShare
            uint64_t address; // of the message, in the target's process
            uint64_t bytes;   // that move
            uint64_t number;  // SharedCopy's
        } share;
        device::MemoryHandle slab; // kSlab
        uint64_t revoked_id;       // kRevoke
    };
};
static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 160);

// How much of a Record a kind uses: what crosses the ring.
constexpr size_t head_bytes(RecordKind kind) {
    switch (kind) {
    case RecordKind::kInline: return offsetof(Record, slot);
    case RecordKind::kSlot:
    case RecordKind::kEdge: return offsetof(Record, source);
    case RecordKind::kChannelEnded:
    case RecordKind::kWantEdge: return offsetof(Record, envelope);
    case RecordKind::kPulled: return offsetof(Record, source) + sizeof(Record::pulled);
    case RecordKind::kGrant: return offsetof(Record, source) + sizeof(Record::grant);
    case RecordKind::kShare: return offsetof(Record, source) + sizeof(Record::share);
    case RecordKind::kSlab: return offsetof(Record, source) + sizeof(Record::slab);
    case RecordKind::kRevoke: return offsetof(Record, source) + sizeof(Record::revoked_id);
    default: return sizeof(Record);
    }
}

} // namespace gpurun::transfer
