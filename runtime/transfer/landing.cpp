#include "transfer/landing.hpp"

#include "transfer/mailbox.hpp"
#include "transfer/record_ring.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

static_assert(Landing::kBytes >= kLargestInline && Landing::kBytes >= kMailBytes);

Landing::~Landing() {
    for (const Shelf& shelf : shelves_)
        for (const Buffer& buffer : shelf.buffers)
            (void)device_.destroy_event(buffer.copied); // a failed device keeps them; nothing to do
    for (void* block : blocks_)
        (void)device_.free_pinned(block);
}

Result<Landing::Buffer*> Landing::take(size_t bytes) {
    size_t index = 0;
    while (shelves_[index].bytes < bytes)
        ++index;
    Shelf& shelf = shelves_[index];
    if (shelf.idle.empty()) {
        GPURUN_ASSIGN(Buffer * over, find_over(shelf));
        if (over != nullptr)
            return over;
        GPURUN_TRY(grow(index));
    }
    Buffer* const buffer = shelf.idle.back();
    shelf.idle.pop_back();
    return buffer;
}

Result<Landing::Buffer*> Landing::find_over(Shelf& shelf) {
    const size_t looks = std::min(kLooks, shelf.left.size());
    for (size_t i = 0; i < looks; ++i) {
        Buffer& oldest = *shelf.left.front();
        GPURUN_ASSIGN(const bool over, device_.query(oldest.copied));
        shelf.left.remove(oldest);
        if (over)
            return &oldest;
        shelf.left.push_back(oldest);
    }
    if (shelf.left.empty() || shelf.buffers.size() * shelf.bytes < kMostBytes)
        return nullptr;
    Buffer& oldest = *shelf.left.front();
    GPURUN_TRY(device_.synchronize(oldest.copied));
    shelf.left.remove(oldest);
    return &oldest;
}

Result<void> Landing::grow(size_t index) {
    Shelf& shelf = shelves_[index];
    GPURUN_ASSIGN(void* block, device_.allocate_pinned(shelf.in_block * shelf.bytes));
    blocks_.push_back(block);
    shelf.idle.reserve(shelf.buffers.size() + shelf.in_block);
    for (size_t i = 0; i < shelf.in_block; ++i) {
        GPURUN_ASSIGN(const device::Event event, device_.create_event());
        Buffer& made = shelf.buffers.emplace_back();
        made.data = static_cast<std::byte*>(block) + i * shelf.bytes;
        made.copied = event;
        made.shelf = index;
        shelf.idle.push_back(&made);
    }
    return {};
}

} // namespace gpurun::transfer
