// Making communicators, as collectives of one that there is, saying how their collectives are made, and freeing them.
// Takes the engine lock.
#pragma once

#include "comm/agreement.hpp"
#include "comm/schedules.hpp"

#include <string>

namespace gpurun::comm {

// What ranks may have in common.
enum class SplitType { kNone = kUndefined, kNode = 1, kGpu, kNumaNode };

class Communicators {
  public:
    Communicators(Core& core, Progress& progress, Schedules& schedules);

    // Any thread, without the lock.
    const Communicator& world() { return core_.communicators().world(); }
    const Communicator* find(uint64_t handle) { return core_.communicators().find(handle); }
    bool had(uint64_t handle) { return core_.communicators().had(handle); }
    uint64_t world_handle() const { return core_.communicators().world_handle(); }
    // How many the program has, without those that it cannot free.
    size_t open();

    // Each waits for the other ranks of the communicator, and gives a handle, or 0 if this rank is not in a new one.
    // kMemory: there is no room for another. kArgument: the ranks called different functions, or gave what does not go
    // together. kPeerLost: a rank has died.
    base::Result<uint64_t> duplicate(const Communicator& comm);
    // `colour` is not negative, or kUndefined.
    base::Result<uint64_t> split(const Communicator& comm, int colour, int key);
    base::Result<uint64_t> split(const Communicator& comm, SplitType type, int key);
    // REQUIRES that the group's members are in the communicator, and, of the second, that this rank is in the group.
    base::Result<uint64_t> create(const Communicator& comm, const Group& group);
    // Ranks keep their order: those that have no place in the grid get no communicator.
    base::Result<uint64_t> create_cart(const Communicator& comm, const Cartesian& grid);
    // A grid for each choice of coordinates in the dimensions that are not kept. REQUIRES that it has a grid.
    base::Result<uint64_t> split_cart(const Communicator& comm, std::span<const bool> kept);
    // The same ranks. Also kArgument: what one names as its destination does not name it as its source.
    base::Result<uint64_t> create_graph(const Communicator& comm, std::span<const int> sources,
                                        std::span<const int> destinations);
    // Waits for the members of the group only, who call it with the same tag.
    base::Result<uint64_t> create_group(const Communicator& comm, const Group& group, int tag);
    // Waits for the other ranks, as the above do; from then on its collectives, and those of what is made of it, are
    // made like that.
    base::Result<void> set_algorithms(const Communicator& comm, const base::AlgorithmsAskedFor& algorithms);
    static constexpr int kMostGroupTag = UINT16_MAX;

    // REQUIRES that it is not one of those that cannot be closed. Waits for nobody. False: it is not there any more.
    bool free(uint64_t handle);

    std::string name(const Communicator& comm);
    void set_name(const Communicator& comm, std::string name);

  private:
    struct Agreement;

    base::Result<uint64_t> agree(const Communicator& comm, const Wish& own,
                                 std::shared_ptr<const Topology> topology = nullptr);
    void add_steps(Agreement& agreement, Schedule& schedule);
    // Once it has run.
    base::Result<uint64_t> finish(Agreement& agreement, const Communicator& comm, base::Result<size_t> ran);
    base::Result<uint64_t> conclude(Agreement& agreement, const Communicator& comm) GPURUN_REQUIRES(engine_lock);
    void propose(Agreement& agreement) GPURUN_REQUIRES(engine_lock);
    void withdraw(Agreement& agreement, bool known_to_others) GPURUN_REQUIRES(engine_lock);
    std::vector<WorldRank> living(const Group& group) GPURUN_REQUIRES(engine_lock);
    base::Result<int> colour_of(SplitType type);

    Core& core_;
    Progress& progress_;
    Schedules& schedules_;
};

} // namespace gpurun::comm
