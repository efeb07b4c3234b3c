#include "device/emulated/arena.hpp"

namespace gpurun::device::emulated {

base::Result<Arena> Arena::create(const char* name, size_t front, size_t capacity) {
    GPURUN_ASSIGN(platform::UniqueFd fd, platform::create_segment(name, front + capacity));
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(fd.get(), front, capacity));
    return Arena(std::move(fd), std::move(mapping), front);
}

std::optional<void*> Arena::allocate(size_t bytes, uint64_t id) {
    const auto extent = extents_.allocate(bytes, id);
    if (!extent)
        return std::nullopt;
    return mapping_.data() + extent->offset;
}

std::optional<Arena::Block> Arena::find(const void* pointer) const {
    const auto extent = extents_.find(offset(pointer));
    if (!extent)
        return std::nullopt;
    return Block{mapping_.data() + extent->offset, extent->bytes, extent->id};
}

std::optional<Arena::Block> Arena::retire(const void* base) {
    if (!contains(base))
        return std::nullopt;
    const auto extent = extents_.retire(offset(base));
    if (!extent)
        return std::nullopt;
    return Block{mapping_.data() + extent->offset, extent->bytes, extent->id};
}

base::Result<void> Arena::punch(const Block& retired) const {
    return platform::punch_hole(fd_.get(), offset_in_segment(retired.base), rounded(retired.bytes));
}

} // namespace gpurun::device::emulated
