// The communicators of this process, and the handles by which the program knows them.
//
// A communicator is reserved, then added, and closed when the program frees it: from then on no look-up by its handle
// finds it. It ends when nothing uses it any more (ended_communicators.hpp). Its place is used again, under a handle
// that was never given before, so an old one is recognized.
//
// find() needs no lock; all else is used under the engine lock.
#pragma once

#include "comm/communicator.hpp"
#include "comm/engine_lock.hpp"
#include "comm/names.hpp"

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gpurun::comm {

class CommunicatorTable {
  public:
    // `nodes`: the one of each process of the job, if it has several.
    CommunicatorTable(WorldRank self, uint32_t ranks, const Names& names = {},
                      const base::AlgorithmsAskedFor& algorithms = {}, std::vector<uint32_t> nodes = {});
    CommunicatorTable(const CommunicatorTable&) = delete;
    CommunicatorTable& operator=(const CommunicatorTable&) = delete;

    static constexpr uint64_t kWorldHandle = 1;
    static constexpr uint64_t kSelfHandle = 2; // of the one of this process alone
    static constexpr size_t kMost = 16384;     // at the same time

    const Communicator& world() const { return *world_; }
    const Communicator& self() const { return *find(first_name_ + kSelfHandle); }
    // These cannot be closed.
    static bool is_lasting(uint64_t handle) {
        return (handle & Names::kPlace) == kWorldHandle || (handle & Names::kPlace) == kSelfHandle;
    }
    uint64_t world_handle() const { return first_name_ + kWorldHandle; }
    // Any thread. Null if the program has no communicator with this handle, or has it no more.
    const Communicator* find(uint64_t handle) const {
        const uint64_t place = handle & Names::kPlace;
        if (handle == 0 || place >= kMost)
            return nullptr;
        const Chunk* const chunk = chunks_[place / kChunk].load(std::memory_order_acquire); // filled before
        const Slot* const slot = chunk != nullptr ? &(*chunk)[place % kChunk] : nullptr;
        const bool found = slot != nullptr && slot->handle.load(std::memory_order_acquire) == handle;
        return found ? &*slot->comm : nullptr;
    }
    // Any thread. Whether there was one.
    bool had(uint64_t handle) const;

    // ---- under the engine lock
    ContextIds& ids() { return ids_; }
    // A place for one. None if there is no room.
    std::optional<uint64_t> reserve();
    void give_back(uint64_t reserved) { unused_.push_back(reserved); }
    // In the place that was reserved; `self` is a member. Its handle.
    uint64_t add(uint64_t reserved, uint32_t id, std::shared_ptr<const Group> group,
                 std::shared_ptr<const Topology> topology = nullptr, const base::AlgorithmsAskedFor& algorithms = {});
    // The program has freed it.
    void close(uint64_t handle);
    bool any_closed() const { return !closed_.empty(); }
    // Ends those that are closed and not used. Called with each before it goes.
    template <typename Visit>
    void end_unused(const Visit& visit) {
        for (size_t i = 0; i < closed_.size();) {
            Slot& slot = slot_at(closed_[i]);
            if (slot.comm->in_use()) {
                ++i;
                continue;
            }
            ended_.add(slot.comm->id());
            visit(*slot.comm);
            by_id_.erase(slot.comm->id());
            slot.comm.reset();
            unused_.push_back(closed_[i]);
            closed_[i] = closed_.back();
            closed_.pop_back();
        }
    }
    // Whether the communicator that the context belongs to was here, and has ended.
    bool has_ended(uint32_t context) const { return ended_.has(Communicator::id_of(context)); }
    // Those that the program has and has not freed, in no order.
    template <typename Visit>
    void for_each_open(const Visit& visit) const {
        for (const auto& chunk : owned_)
            for (size_t i = 0; chunk != nullptr && i < kChunk; ++i)
                if ((*chunk)[i].handle.load(std::memory_order_relaxed) != 0) // stored under the lock
                    visit(*(*chunk)[i].comm);
    }
    // Whether the program has freed it, and something still uses it.
    bool is_closed(const Communicator& comm) const {
        return std::any_of(closed_.begin(), closed_.end(),
                           [&](uint64_t place) { return &*slot_at(place).comm == &comm; });
    }
    // Null: there is none with such a context, or none any more.
    const Communicator* of_context(uint32_t context) const;
    size_t size() const { return by_id_.size(); }
    // Those that the program has not freed, without the lasting ones.
    size_t open() const { return by_id_.size() - closed_.size() - 2; }
    // How often the place that was used most often was.
    uint32_t most_uses() const;

  private:
    static constexpr size_t kChunk = 256;

    struct Slot {
        std::atomic<uint64_t> handle{0}; // of `comm`, stored (release) behind it, read (acquire) by find(); 0: none
        std::atomic<uint64_t> uses{0};   // relaxed: for had(), which needs nothing else
        std::optional<Communicator> comm;
    };
    using Chunk = std::array<Slot, kChunk>;

    Slot& slot_at(uint64_t place) const { return (*owned_[place / kChunk])[place % kChunk]; }

    const WorldRank self_;
    const std::vector<uint32_t> nodes_;
    const uint64_t first_name_;
    std::array<std::atomic<Chunk*>, kMost / kChunk> chunks_{}; // those of owned_, stored (release) once they are there
    std::array<std::unique_ptr<Chunk>, kMost / kChunk> owned_;
    uint64_t places_ = 1; // that were ever used; no handle is 0
    std::vector<uint64_t> unused_;
    std::vector<uint64_t> closed_;
    std::unordered_map<uint32_t, const Communicator*> by_id_;
    ContextIds ids_;
    EndedIds ended_;
    const Communicator* world_;
};

} // namespace gpurun::comm
