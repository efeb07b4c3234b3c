// The joint jobs that this process is in besides its own, each with another job that it has met (connecting.hpp). They
// come and go by calls of the program; what each gives the program says by its number whose it is (comm/names.hpp).
//
// Any thread. A world that is found by its number stays until its communicator is freed, which nobody else may be about
// to use then. Calls that concern all worlds hold them meanwhile.
#pragma once

#include "api/world.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace gpurun::api {

class JointWorlds {
  public:
    static constexpr uint32_t kMost = comm::Names::kEngines - 1; // at the same time

    // None has a message, a loan or a request here: nobody needs to ask them.
    bool empty() const { return number_.load(std::memory_order_relaxed) == 0; }
    // Null: there is none with the number of the name.
    World* of_name(uint64_t name) const {
        return by_number_[comm::Names::engine_of(name)].load(std::memory_order_acquire); // once it is there
    }
    // Whether the name was given by one that is there no more.
    bool had(uint64_t name);

    // Names for a new one, until add() or give_back(). None: there are as many as there may be.
    std::optional<comm::Names> reserve();
    void give_back(const comm::Names& names);
    void add(std::unique_ptr<World> world);
    // Nobody finds it any more, nor its number, before give_back(). Null: another thread was faster.
    std::unique_ptr<World> take(uint64_t name);
    // All of them.
    std::vector<std::unique_ptr<World>> take_all();

    // Calls `visit` with each, until one gives an error.
    template <typename Visit>
    base::Result<void> for_each(const Visit& visit) {
        const std::shared_lock lock(mutex_);
        for (const std::unique_ptr<World>& each : worlds_)
            if (each != nullptr)
                GPURUN_TRY(visit(*each));
        return {};
    }

  private:
    std::unique_ptr<World> take_from(std::unique_ptr<World>& place);

    std::shared_mutex mutex_;                                          // guards all but the atomics
    std::array<std::unique_ptr<World>, comm::Names::kEngines> worlds_; // by number; 0 is the process's own job's
    std::array<bool, comm::Names::kEngines> taken_{true};
    std::array<uint32_t, comm::Names::kEngines> first_use_{};            // of the next one
    std::array<std::atomic<World*>, comm::Names::kEngines> by_number_{}; // worlds_, for of_name(): stored release
    std::atomic<uint32_t> number_{0}; // relaxed: who has been given nothing yet needs no look
};

} // namespace gpurun::api
