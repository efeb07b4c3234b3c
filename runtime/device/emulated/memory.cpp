#include "device/emulated/memory.hpp"

#include "base/format.hpp"
#include "device/emulated/handles.hpp"
#include "platform/random_number.hpp"

#include <mutex>

namespace gpurun::device::emulated {

using base::Status;

base::Result<std::unique_ptr<Memory>> Memory::create(size_t capacity, Placement ordered_placement) {
    const size_t page = platform::page_size();
    const size_t whole = (capacity + page - 1) / page * page;
    if (capacity == 0 || whole < capacity)
        return base::error(Status::kSetting,
                           "an emulated device cannot have {} bytes of memory: set "
                           "GPURUN_EMULATED_MEMORY",
                           capacity);
    GPURUN_ASSIGN(Arena shareable, Arena::create("gpurun-device", Control::bytes(), whole));
    GPURUN_ASSIGN(Arena ordered, Arena::create("gpurun-ordered", 0, whole));
    GPURUN_ASSIGN(Control control, Control::create(shareable.fd(), platform::random_number()));
    return std::unique_ptr<Memory>(
        new Memory(std::move(shareable), std::move(ordered), ordered_placement, std::move(control), whole));
}

base::Result<void*> Memory::allocate_in(Arena& arena, size_t bytes) {
    const std::unique_lock lock(mutex_);
    std::optional<void*> pointer;
    if (bytes <= capacity_ - used_ && arena.rounded(bytes) <= capacity_ - used_)
        pointer = arena.allocate(bytes, next_id_);
    if (!pointer)
        return base::error(Status::kMemory,
                           "the emulated device has no {} bytes left: {} of {} are in use; free some, or set "
                           "GPURUN_EMULATED_MEMORY",
                           bytes, used_, capacity_);
    ++next_id_;
    used_ += arena.rounded(bytes);
    return *pointer;
}

base::Result<void*> Memory::allocate(size_t bytes) {
    if (bytes == 0)
        return static_cast<void*>(nullptr);
    return allocate_in(shareable_, bytes);
}

base::Result<void*> Memory::allocate_ordered(size_t bytes) {
    if (bytes == 0)
        return static_cast<void*>(nullptr);
    return allocate_in(ordered_, bytes);
}

base::Result<void> Memory::free(void* pointer) {
    std::optional<Arena::Block> retired;
    {
        const std::unique_lock lock(mutex_);
        retired = shareable_.retire(pointer);
        if (!retired)
            return base::error(Status::kBuffer,
                               "{} is not the start of an allocation on this device, or was freed before", pointer);
        if (const auto exported = exports_.find(retired->id); exported != exports_.end()) {
            control_.exported(exported->second)->store(0, std::memory_order_release);
            export_slots_.release(exported->second);
            exports_.erase(exported);
        }
    }
    give_back(shareable_, *retired);
    return {};
}

base::Result<Arena::Block> Memory::retire_ordered(void* pointer) {
    const std::unique_lock lock(mutex_);
    const auto retired = ordered_.retire(pointer);
    if (!retired)
        return base::error(Status::kBuffer, "{} is not the start of a stream-ordered allocation, or was freed before",
                           pointer);
    return *retired;
}

void Memory::reclaim_ordered(const Arena::Block& retired) { give_back(ordered_, retired); }

void Memory::give_back(Arena& arena, const Arena::Block& retired) {
    // Failing to return pages costs memory, not correctness; the place is usable either way.
    (void)arena.punch(retired);
    const std::unique_lock lock(mutex_);
    used_ -= arena.rounded(retired.bytes);
    arena.reclaim(retired);
}

base::Result<void*> Memory::allocate_pinned(size_t bytes) {
    if (bytes == 0)
        return static_cast<void*>(nullptr);
    GPURUN_ASSIGN(const SharedHostMemory::Allocation made, host_memory_.allocate(bytes));
    const std::unique_lock lock(mutex_);
    host_.add_allocation({static_cast<std::byte*>(made.pointer), bytes, next_id_++, made.exportable}, made.bytes);
    return made.pointer;
}

base::Result<void> Memory::free_pinned(void* pointer) {
    {
        const std::unique_lock lock(mutex_);
        GPURUN_TRY(host_.remove_allocation(pointer));
    }
    host_memory_.free(pointer);
    return {};
}

base::Result<void*> Memory::import_host_memory(const MemoryHandle& handle) {
    return host_memory_.import_memory(handle, [&](void* memory, size_t bytes) { return register_host(memory, bytes); });
}

std::optional<base::Result<void>> Memory::close_host_memory(void* imported) {
    return host_memory_.close(imported, [&](void* memory) { return unregister_host(memory); });
}

base::Result<void> Memory::register_host(void* memory, size_t bytes) {
    const std::unique_lock lock(mutex_);
    return host_.add(memory, bytes, next_id_++);
}

base::Result<void> Memory::unregister_host(void* memory) {
    const std::unique_lock lock(mutex_);
    return host_.remove(memory);
}

base::Result<Buffer> Memory::describe(const void* pointer, size_t bytes) const {
    const std::shared_lock lock(mutex_);
    if (shareable_.contains(pointer))
        return describe_in(shareable_, Placement::kDevice, pointer, bytes);
    if (ordered_.contains(pointer))
        return describe_in(ordered_, ordered_placement_, pointer, bytes);
    GPURUN_ASSIGN(const std::optional<HostRanges::Range> range, host_.find(pointer, bytes));
    if (range)
        return Buffer{Placement::kPinned, range->exportable, false, range->base, range->bytes, range->id};
    return Buffer{};
}

base::Result<Buffer> Memory::describe_in(const Arena& arena, Placement placement, const void* pointer,
                                         size_t bytes) const {
    const auto block = arena.find(pointer);
    if (!block)
        return base::error(Status::kBuffer,
                           "{} lies in device memory that is not allocated: it was freed, or the address is wrong",
                           pointer);
    const size_t left = block->bytes - static_cast<size_t>(static_cast<const std::byte*>(pointer) - block->base);
    if (bytes > left)
        return base::error(Status::kBuffer,
                           "{} bytes at {} reach past the end of their allocation, which has {} left there: check "
                           "the count and the type",
                           bytes, pointer, left);
    return Buffer{placement, &arena == &shareable_, false, block->base, block->bytes, block->id};
}

base::Result<MemoryHandle> Memory::export_memory(const Buffer& buffer) {
    if (buffer.placement == Placement::kPinned)
        return host_memory_.export_memory(buffer.base);
    const std::unique_lock lock(mutex_);
    const auto block = shareable_.contains(buffer.base) ? shareable_.find(buffer.base) : std::nullopt;
    if (!block || block->id != buffer.id)
        return base::error(Status::kBuffer, "{} is not device memory that can be exported, or was freed", buffer.base);
    auto exported = exports_.find(block->id);
    if (exported == exports_.end()) {
        GPURUN_ASSIGN(const uint32_t slot, export_slots_.claim("exported allocations"));
        control_.exported(slot)->store(block->id, std::memory_order_release);
        exported = exports_.emplace(block->id, slot).first;
    }
    return pack<MemoryHandleBytes, MemoryHandle>({kMemoryHandleMagic, exported->second, control_.token(),
                                                  shareable_.offset_in_segment(block->base),
                                                  shareable_.rounded(block->bytes), block->id});
}

} // namespace gpurun::device::emulated
