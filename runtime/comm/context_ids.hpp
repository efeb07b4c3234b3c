// The ids by which messages of different communicators are kept apart.
//
// An id has three parts: the process that gave it, an index, and how often the index was given before (its generation).
// A process gives only ids of its own, so no two processes need to agree on what is free. Rank 0 of a communicator has
// given its id. Once every member has let go of the communicator, the index is given again, with the next generation.
//
// So an old message cannot be taken for one of a new communicator: its generation is another. Generations come back
// after some uses of an index: 16 in the largest jobs, 1024 with 256 processes, more with fewer. By then the message is
// long out of its ring, since members let go before the index is given again, and whoever has let go takes out what
// comes for the old id (EndedIds). Pure.
#pragma once

#include "base/world_rank.hpp"

#include <bit>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace gpurun::comm {

using base::WorldRank;

// The parts of an id, in 30 bits: the contexts of messages have two more (communicator.hpp). The more processes a job
// has, the fewer generations.
class ContextIdParts {
  public:
    static constexpr uint32_t kIndexBits = 12;
    static constexpr uint32_t kIndices = 1u << kIndexBits;

    explicit constexpr ContextIdParts(uint32_t processes)
        : generation_bits_(kBits - kIndexBits - static_cast<uint32_t>(std::bit_width(processes - 1))) {}

    constexpr uint32_t generations() const { return 1u << generation_bits_; }
    constexpr uint32_t make(WorldRank giver, uint32_t generation, uint32_t index) const {
        return giver.value << (kIndexBits + generation_bits_) | generation << kIndexBits | index;
    }
    constexpr WorldRank giver(uint32_t id) const { return {id >> (kIndexBits + generation_bits_)}; }
    constexpr uint32_t generation(uint32_t id) const { return id >> kIndexBits & (generations() - 1); }
    static constexpr uint32_t index(uint32_t id) { return id & (kIndices - 1); }

  private:
    static constexpr uint32_t kBits = 30;

    uint32_t generation_bits_;
};

constexpr uint32_t kNoId = 0;
// Of the communicator of all ranks; nobody gives it.
constexpr uint32_t kWorldId = 1;
// Of that of the process alone. All processes use the same one, since none sends another a message in it.
constexpr uint32_t kSelfId = 2;

// The ids that this process gives. Each is proposed, then given to a communicator's members or taken back.
class ContextIds {
  public:
    ContextIds(WorldRank self, const ContextIdParts& parts) : self_(self), parts_(parts) {}

    const ContextIdParts& parts() const { return parts_; }

    // So many communicators of which this process is rank 0 can there be at the same time.
    static constexpr uint32_t kMost = ContextIdParts::kIndices - 3; // no index is 0, and two are of the ids above

    // kNoId if all are in use.
    uint32_t propose();
    // No other process has learned of it.
    void take_back(uint32_t id);
    // To a communicator with these members; each will let go of it, or already has.
    void give(uint32_t id, std::span<const WorldRank> members);
    // A member has let go. Nothing if that is not known to be one.
    void let_go(uint32_t id, WorldRank member);
    // A process has died: it has let go of all.
    void lose(WorldRank dead);

    uint32_t in_use() const { return static_cast<uint32_t>(indices_.size() - free_.size()); }

  private:
    struct Index {
        uint32_t generation = 0;
        bool given = false;             // else it is free or proposed
        std::vector<WorldRank> holders; // if given: who has not let go
        std::vector<WorldRank> let_go;  // if proposed: members that were faster than this process
    };
    Index& at(uint32_t id) { return indices_[ContextIdParts::index(id) - kFirstIndex]; }
    bool is_current(uint32_t id) const;
    void free_if_unheld(uint32_t number);

    static constexpr uint32_t kFirstIndex = 3;

    const WorldRank self_;
    const ContextIdParts parts_;
    std::deque<Index> indices_; // from kFirstIndex on, as many as were ever in use together
    std::deque<uint32_t> free_; // places in indices_; that was freed first which is used next
};

// Ids of communicators that this process has let go of: what still comes for one is nobody's.
class EndedIds {
  public:
    explicit EndedIds(const ContextIdParts& parts) : parts_(parts) {}

    void add(uint32_t id) { last_[without_generation(id)] = parts_.generation(id); }
    bool has(uint32_t id) const {
        const auto found = last_.find(without_generation(id));
        // Generations go round. Those before the last one have ended, too.
        return found != last_.end() &&
               ((found->second - parts_.generation(id)) & (parts_.generations() - 1)) < parts_.generations() / 2;
    }

  private:
    uint32_t without_generation(uint32_t id) const {
        return parts_.make(parts_.giver(id), 0, ContextIdParts::index(id));
    }

    const ContextIdParts parts_;
    std::unordered_map<uint32_t, uint32_t> last_; // the generation that ended last, by the other parts
};

} // namespace gpurun::comm
