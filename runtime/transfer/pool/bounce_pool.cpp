#include "transfer/pool/bounce_pool.hpp"

#include <algorithm>

namespace gpurun::transfer {

namespace {

// Of a rank: 64 messages of 2 MiB. Where many ranks share a device, four times that in all, and a slab each.
constexpr size_t kMostBytes = size_t{128} << 20;
constexpr size_t kMostOfDevice = 4 * kMostBytes;

} // namespace

BouncePool::BouncePool(device::Device& device, uint32_t ranks_on_device)
    : device_(device),
      most_slabs_(std::min(kMostBytes, std::max(kMostOfDevice / std::max(ranks_on_device, 1U), kSlabBytes)) /
                  kSlabBytes) {}

BouncePool::~BouncePool() {
    for (const Slab& each : slabs_)
        (void)device_.free(each.memory); // a failed device keeps it; nothing to do
}

std::optional<BouncePool::Buffer> BouncePool::take(size_t bytes) {
    if (bytes > kSlabBytes)
        return std::nullopt;
    reclaim();
    auto found = find(bytes);
    if (!found && grow())
        found = find(bytes);
    lent_ += found ? 1 : 0;
    return found;
}

std::optional<BouncePool::Buffer> BouncePool::find(size_t bytes) {
    for (size_t i = 0; i < slabs_.size(); ++i)
        if (const auto offset = slabs_[i].room.take(bytes))
            return Buffer{slabs_[i].memory + *offset, slabs_[i].where, bytes, i};
    return std::nullopt;
}

void BouncePool::give_back(const Buffer& buffer) {
    --lent_;
    free(buffer);
}

void BouncePool::leave(const Buffer& buffer, const CompletionPoint& end) {
    --lent_;
    left_.push_back({buffer, end});
}

void BouncePool::free(const Buffer& buffer) {
    Slab& slab = slabs_[buffer.slab];
    slab.room.give_back(static_cast<size_t>(buffer.data - slab.memory), buffer.bytes);
}

// The rank that reads it may have died: then its edge has come by poison, perhaps before this rank has written.
void BouncePool::reclaim() {
    std::erase_if(left_, [&](const Left& each) {
        const auto reached = [&](Edge edge) {
            auto come = each.end.fence->reached(edge, each.end.slot);
            return come && *come;
        };
        if (!reached(Edge::kForward) || !reached(each.end.edge))
            return false;
        free(each.buffer);
        return true;
    });
}

// Without memory, messages go in chunks.
bool BouncePool::grow() {
    if (is_full_ || slabs_.size() == most_slabs_)
        return false;
    is_full_ = true; // unless all of this succeeds
    auto memory = device_.allocate(kSlabBytes);
    if (!memory)
        return false;
    auto where = device_.describe(*memory, kSlabBytes);
    if (!where || !where->exportable) {
        (void)device_.free(*memory);
        return false;
    }
    slabs_.push_back({static_cast<std::byte*>(*memory), *where});
    is_full_ = false;
    return true;
}

} // namespace gpurun::transfer
