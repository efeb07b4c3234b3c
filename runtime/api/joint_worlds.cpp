#include "api/joint_worlds.hpp"

#include <utility>

namespace gpurun::api {

using comm::Names;

bool JointWorlds::had(uint64_t name) {
    const std::shared_lock lock(mutex_);
    return Names::engine_of(name) != 0 && Names::use_of(name) < first_use_[Names::engine_of(name)];
}

std::optional<Names> JointWorlds::reserve() {
    const std::lock_guard lock(mutex_);
    for (uint32_t number = 1; number < Names::kEngines; ++number)
        if (!std::exchange(taken_[number], true))
            return Names{number, first_use_[number]};
    return std::nullopt;
}

void JointWorlds::give_back(const Names& names) {
    const std::lock_guard lock(mutex_);
    first_use_[names.engine] = names.first_use;
    taken_[names.engine] = false;
}

void JointWorlds::add(std::unique_ptr<World> world) {
    const std::lock_guard lock(mutex_);
    const uint32_t number = world->names().engine;
    by_number_[number].store(world.get(), std::memory_order_release);
    worlds_[number] = std::move(world);
    number_.fetch_add(1, std::memory_order_relaxed);
}

std::unique_ptr<World> JointWorlds::take_from(std::unique_ptr<World>& place) {
    if (place == nullptr)
        return nullptr;
    by_number_[place->names().engine].store(nullptr, std::memory_order_release);
    number_.fetch_sub(1, std::memory_order_relaxed);
    first_use_[place->names().engine] = UINT32_MAX; // until give_back(): had() knows all that it gave
    return std::move(place);
}

std::unique_ptr<World> JointWorlds::take(uint64_t name) {
    const std::lock_guard lock(mutex_);
    return take_from(worlds_[Names::engine_of(name)]);
}

std::vector<std::unique_ptr<World>> JointWorlds::take_all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<World>> all;
    for (std::unique_ptr<World>& each : worlds_)
        if (auto taken = take_from(each))
            all.push_back(std::move(taken));
    return all;
}

} // namespace gpurun::api
