// A group of ranks, the contexts that keep its messages apart from all others, who is next to whom, if that is known,
// and how its collectives are to be made.
//
// It stays as long as something uses it, also when the program has freed it (communicators.hpp): requests and schedules
// hold it under the engine lock, and calls that wait, or that stand in an open group, by a CommunicatorUse.
#pragma once

#include "base/algorithms.hpp"
#include "comm/context_ids.hpp"
#include "comm/group.hpp"
#include "comm/node_layout.hpp"
#include "comm/topology.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace gpurun::comm {

constexpr int kAnySource = -1;
constexpr int kUndefined = -3;
constexpr int kAnyTag = -1;

// The message that a receive has taken, in ranks of its communicator.
struct Arrived {
    int source = kProcNull;
    int tag = kAnyTag;
    size_t bytes = 0; // the message's true length: more than the buffer's if it was truncated
};

// The contexts of collectives have this bit.
constexpr uint32_t kCollectiveContexts = 1;
// Of copies inside a rank, which are made as messages to itself. No communicator has id 0.
constexpr uint32_t kCopyContext = 0;
// Of what describes a loan of tensors, in front of it. Its tags are not 0, that of copies.
constexpr uint32_t kDescriptionContext = kCopyContext;
// Of what members tell the process that gave a communicator's id: that they have let go of it. The tag is the id.
constexpr uint32_t kLetGoContext = kCopyContext | kCollectiveContexts;

class Communicator {
  public:
    // `self` is this process, a member of the group.
    Communicator(uint32_t id, Group group, WorldRank self)
        : Communicator(id, std::make_shared<const Group>(std::move(group)), self) {}
    Communicator(uint32_t id, std::shared_ptr<const Group> group, WorldRank self,
                 std::shared_ptr<const Topology> topology = nullptr, const base::AlgorithmsAskedFor& algorithms = {},
                 std::shared_ptr<const NodeLayout> nodes = nullptr)
        : id_(id), group_(std::move(group)), self_(*group_->rank_of(self)), topology_(std::move(topology)),
          nodes_(std::move(nodes)), algorithms_(algorithms) {}

    uint32_t id() const { return id_; }
    const Group& group() const { return *group_; }
    const std::shared_ptr<const Group>& shared_group() const { return group_; }
    // Null: it has none.
    const std::shared_ptr<const Topology>& topology() const { return topology_; }
    // Null: all its ranks are on one node.
    const NodeLayout* nodes() const { return nodes_.get(); }
    // Whether there are several, each with its ranks in a row, and one of them with some.
    bool has_nodes_of_ranks() const { return nodes_ != nullptr && nodes_->in_rows() && nodes_->most() > 1; }
    // All members ask for the same. Changes by a collective of the communicator, and only there is read.
    const base::AlgorithmsAskedFor& algorithms() const { return algorithms_; }
    void set_algorithms(const base::AlgorithmsAskedFor& algorithms) const { algorithms_ = algorithms; }
    Rank rank() const { return self_; }
    int size() const { return group_->size(); }

    // Users' messages, and those of the collectives, which no wildcard of a user may match.
    uint32_t user_context() const { return 2 * id_; }
    uint32_t collective_context() const { return 2 * id_ + kCollectiveContexts; }
    // Of the communicator that a context belongs to, unless it is one of the two above. Messages of graphs match among
    // themselves, in contexts with the highest bit.
    static uint32_t id_of(uint32_t context) { return (context & ~(uint32_t{1} << 31)) >> 1; }

    // ---- under the engine lock
    // The how manyth collective a new one is, from 0 on and over again.
    uint16_t count_collective() const { return collectives_++; }
    // Whether this rank has begun that one, of those of which some rank may still speak.
    bool has_counted(uint16_t sequence) const { return static_cast<int16_t>(collectives_ - sequence) > 0; }
    // Of one of the last few: what it was called with; 0: not known any more.
    uint64_t signature_of(uint16_t sequence) const {
        const Signed& found = signatures_[sequence % kSignatures];
        return found.sequence == sequence ? found.signature : 0;
    }
    void note_signature(uint16_t sequence, uint64_t signature) const {
        signatures_[sequence % kSignatures] = {signature, sequence};
    }
    const std::string& name() const { return name_; }
    void set_name(std::string name) const { name_ = std::move(name); }
    void hold() const { ++held_; }
    void let_go() const { --held_; }
    // A call that uses it began before the program freed it. Acquire pairs with the end of its use.
    bool in_use() const { return held_ != 0 || calls_.load(std::memory_order_acquire) != 0; }

  private:
    friend class CommunicatorUse;

    static constexpr size_t kSignatures = 8;
    struct Signed {
        uint64_t signature = 0;
        uint16_t sequence = 0;
    };

    uint32_t id_;
    mutable uint16_t collectives_ = 0;
    mutable std::array<Signed, kSignatures> signatures_{};
    mutable uint64_t held_ = 0;
    mutable std::atomic<uint32_t> calls_{0}; // that use it
    mutable std::string name_;
    std::shared_ptr<const Group> group_;
    Rank self_;
    std::shared_ptr<const Topology> topology_;
    std::shared_ptr<const NodeLayout> nodes_;
    mutable base::AlgorithmsAskedFor algorithms_;
};

// Of a call that uses a communicator without the engine lock.
class CommunicatorUse {
  public:
    explicit CommunicatorUse(const Communicator& comm) : comm_(&comm) {
        comm_->calls_.fetch_add(1, std::memory_order_relaxed); // publishes nothing
    }
    CommunicatorUse(CommunicatorUse&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
    CommunicatorUse(const CommunicatorUse&) = delete;
    CommunicatorUse& operator=(const CommunicatorUse&) = delete;
    CommunicatorUse& operator=(CommunicatorUse&&) = delete;
    ~CommunicatorUse() {
        if (comm_ != nullptr)
            comm_->calls_.fetch_sub(1, std::memory_order_release); // its use of the communicator, to in_use()
    }

  private:
    const Communicator* comm_;
};

} // namespace gpurun::comm
