// A group of ranks and the contexts that keep its messages apart from all others.
#pragma once

#include "comm/group.hpp"

#include <cstddef>
#include <cstdint>

namespace gpurun::comm {

constexpr int kAnySource = -1;
constexpr int kProcNull = -2;
constexpr int kAnyTag = -1;

// The message that a receive has taken, in ranks of its communicator.
struct Arrived {
    int source = kProcNull;
    int tag = kAnyTag;
    size_t bytes = 0; // the message's true length: more than the buffer's if it was truncated
};

class Communicator {
  public:
    // `self` is this process, a member of the group.
    Communicator(uint64_t id, Group group, WorldRank self)
        : id_(id), group_(std::move(group)), self_(*group_.rank_of(self)) {}

    uint64_t id() const { return id_; }
    const Group& group() const { return group_; }
    Rank rank() const { return self_; }
    int size() const { return group_.size(); }

    // Users' messages, and those of the collectives, which no wildcard of a user may match.
    uint32_t user_context() const { return static_cast<uint32_t>(2 * id_); }
    uint32_t collective_context() const { return static_cast<uint32_t>(2 * id_ + 1); }

    // The how manyth collective a new one is, from 0 on and over again. Used under the engine lock.
    uint16_t count_collective() const { return collectives_++; }

  private:
    uint64_t id_;
    mutable uint16_t collectives_ = 0;
    Group group_;
    Rank self_;
};

// The contexts of collectives have this bit.
constexpr uint32_t kCollectiveContexts = 1;
constexpr uint64_t kWorldId = 1;
// Of copies inside a rank, which are made as messages to itself. No communicator has id 0.
constexpr uint32_t kCopyContext = 0;

} // namespace gpurun::comm
