// A group of ranks and the contexts that keep its messages apart from all others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpurun::comm {

constexpr int kAnySource = -1;
constexpr int kProcNull = -2;
constexpr int kAnyTag = -1;

// What has come of a receive.
struct Arrived {
    int source = kProcNull;
    int tag = kAnyTag;
    size_t bytes = 0; // the message's true length: more than the buffer's if it was truncated
};

struct Communicator {
    uint64_t id;
    int rank;
    int size;

    // Users' messages, and those of the collectives, which no wildcard of a user may match.
    uint32_t user_context() const { return static_cast<uint32_t>(2 * id); }
    uint32_t collective_context() const { return static_cast<uint32_t>(2 * id + 1); }
};

constexpr uint64_t kWorldId = 1;
// Copies inside a rank that go the way of a message to itself (context 0; no communicator has id 0).
constexpr uint32_t kCopyContext = 0;

} // namespace gpurun::comm
