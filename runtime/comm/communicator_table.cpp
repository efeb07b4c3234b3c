#include "comm/communicator_table.hpp"

#include <algorithm>

namespace gpurun::comm {

CommunicatorTable::CommunicatorTable(WorldRank self, uint32_t ranks, const Names& names,
                                     const base::AlgorithmsAskedFor& algorithms, std::vector<uint32_t> nodes)
    : self_(self), nodes_(std::move(nodes)), first_name_(names.first()), ids_(self, ContextIdParts(ranks)),
      ended_(ids_.parts()) {
    const auto add_lasting = [&](uint64_t place, uint32_t id, Group group, const char* name) {
        const uint64_t handle =
            add(*reserve(), id, std::make_shared<const Group>(std::move(group)), nullptr, algorithms);
        GPURUN_ASSERT(handle == first_name_ + place);
        find(handle)->set_name(name);
    };
    add_lasting(kWorldHandle, kWorldId, Group::of_all(ranks), "GPURUN_COMM_WORLD");
    add_lasting(kSelfHandle, kSelfId, Group({self}), "GPURUN_COMM_SELF");
    world_ = find(world_handle());
}

bool CommunicatorTable::had(uint64_t handle) const {
    const uint64_t place = handle & Names::kPlace;
    if (place == 0 || place >= kMost)
        return false;
    const Chunk* const chunk = chunks_[place / kChunk].load(std::memory_order_acquire);
    return chunk != nullptr && Names::use_of(handle) < (*chunk)[place % kChunk].uses.load(std::memory_order_relaxed);
}

std::optional<uint64_t> CommunicatorTable::reserve() {
    if (!unused_.empty()) {
        const uint64_t place = unused_.back();
        unused_.pop_back();
        return place;
    }
    if (places_ == kMost)
        return std::nullopt;
    const uint64_t place = places_++;
    std::unique_ptr<Chunk>& chunk = owned_[place / kChunk];
    if (chunk == nullptr) {
        chunk = std::make_unique<Chunk>();
        for (Slot& each : *chunk)
            each.uses.store(Names::use_of(first_name_), std::memory_order_relaxed);
        chunks_[place / kChunk].store(chunk.get(), std::memory_order_release);
    }
    return place;
}

uint64_t CommunicatorTable::add(uint64_t reserved, uint32_t id, std::shared_ptr<const Group> group,
                                std::shared_ptr<const Topology> topology, const base::AlgorithmsAskedFor& algorithms) {
    Slot& slot = slot_at(reserved);
    auto layout = nodes_.empty() ? nullptr : NodeLayout::of(*group, nodes_);
    const Communicator& comm =
        slot.comm.emplace(id, std::move(group), self_, std::move(topology), algorithms, std::move(layout));
    by_id_[id] = &comm;
    const uint64_t use = slot.uses.fetch_add(1, std::memory_order_relaxed);
    const uint64_t handle = use * Names::kUse + (first_name_ & (Names::kUse - 1)) + reserved;
    slot.handle.store(handle, std::memory_order_release);
    return handle;
}

void CommunicatorTable::close(uint64_t handle) {
    GPURUN_ASSERT(find(handle) != nullptr && !is_lasting(handle));
    slot_at(handle & Names::kPlace).handle.store(0, std::memory_order_relaxed); // publishes nothing
    closed_.push_back(handle & Names::kPlace);
}

uint32_t CommunicatorTable::most_uses() const {
    uint64_t most = 0;
    for (uint64_t place = 1; place < places_; ++place)
        most = std::max(most, slot_at(place).uses.load(std::memory_order_relaxed));
    return static_cast<uint32_t>(most);
}

const Communicator* CommunicatorTable::of_context(uint32_t context) const {
    const auto found = by_id_.find(Communicator::id_of(context));
    return found != by_id_.end() ? found->second : nullptr;
}

} // namespace gpurun::comm
