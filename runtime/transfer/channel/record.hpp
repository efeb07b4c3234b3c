// Records: what two ranks tell each other, each with an optional payload.
//
// A record belongs to a protocol, which alone knows what is in its body. The kind says whom it is for:
//   kMessage    starts a message, in the order in which it was sent: for the matcher
//   kToSend     for the send that `serial` names in its process
//   kToReceive  for the receive that `serial` names in its process
//   kNotice     for the protocol itself: its part of the peer (ProtocolPart)
//   kUnwanted   for the send that `serial` names: no receive can take its message any more
#pragma once

#include "base/check.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpurun::transfer {

enum class RecordKind : uint8_t {
    kNone = 0, // nothing was posted here
    kSkip,     // the rest of the ring up to its end is unused
    kMessage,
    kToSend,
    kToReceive,
    kNotice,
    kUnwanted,
};

using ProtocolId = uint8_t; // its place in the table of protocols (protocols.hpp)

// Messages of graphs match among themselves.
constexpr uint32_t kCapturedContexts = uint32_t{1} << 31;

// By what a message is matched, and its length.
struct Envelope {
    uint32_t context; // of a communicator; collectives have their own
    int32_t tag;
    uint64_t bytes;
};

struct Record {
    static constexpr size_t kMostBodyBytes = 144 + sizeof(uint64_t); // with a signature

    RecordKind kind = RecordKind::kNone;
    ProtocolId protocol = 0;
    uint16_t lap = 0;        // the ring's (record_ring.hpp)
    uint16_t head_bytes = 0; // of this record, as far as it is used
    uint16_t payload_bytes = 0;
    uint64_t serial = 0;
    Envelope envelope{};
    std::byte body[kMostBodyBytes];

    Record(RecordKind kind_, ProtocolId protocol_, uint64_t serial_ = 0)
        : kind(kind_), protocol(protocol_), head_bytes(kBareBytes), serial(serial_) {}
    Record() = default;

    // Without a body.
    static constexpr uint16_t kBareBytes = 32;

    template <typename Body>
    Record& with(const Body& content) {
        static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) + sizeof(uint64_t) <= kMostBodyBytes);
        std::memcpy(body, &content, sizeof content);
        head_bytes = static_cast<uint16_t>(kBareBytes + sizeof content);
        return *this;
    }
    // REQUIRES that the record has such a body.
    template <typename Body>
    Body as() const {
        static_assert(std::is_trivially_copyable_v<Body>);
        GPURUN_ASSERT(head_bytes == kBareBytes + sizeof(Body) ||
                      head_bytes == kBareBytes + sizeof(Body) + sizeof(uint64_t));
        Body content;
        std::memcpy(&content, body, sizeof content);
        return content;
    }

    // Of a message of a collective: what its sender has called (comm/signature.hpp). Behind the body, so that other
    // records are no longer for it.
    Record& sign(uint64_t signature) {
        GPURUN_ASSERT(head_bytes + sizeof signature <= sizeof(Record));
        std::memcpy(body + (head_bytes - kBareBytes), &signature, sizeof signature);
        head_bytes = static_cast<uint16_t>(head_bytes + sizeof signature);
        return *this;
    }
    // REQUIRES that the record was signed, or has no body: then 0.
    uint64_t signature() const {
        uint64_t signature = 0;
        if (head_bytes > kBareBytes)
            std::memcpy(&signature, body + (head_bytes - kBareBytes - sizeof signature), sizeof signature);
        return signature;
    }
};
static_assert(std::is_trivially_copyable_v<Record> && offsetof(Record, body) == Record::kBareBytes);

// Copies what is used of it.
inline void copy_record(Record& to, const Record& from) {
    std::memcpy(static_cast<void*>(&to), &from, from.head_bytes);
}

} // namespace gpurun::transfer
