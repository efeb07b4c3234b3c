#include "transfer/pool/staging_pool.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

StagingPool::~StagingPool() {
    for (const SizeClass& each : classes_)
        for (const Buffer& buffer : each.buffers)
            (void)device_.destroy_event(buffer.copied); // a failed device keeps them; nothing to do
    for (void* block : blocks_)
        (void)device_.free_pinned(block);
}

Result<StagingPool::Buffer*> StagingPool::take(size_t bytes) {
    size_t size_class = 0;
    while (classes_[size_class].bytes < bytes)
        ++size_class;
    SizeClass& from = classes_[size_class];
    if (from.idle.empty()) {
        GPURUN_ASSIGN(Buffer * over, find_over(from));
        if (over != nullptr)
            return over;
        GPURUN_TRY(grow(size_class));
    }
    Buffer* const buffer = from.idle.back();
    from.idle.pop_back();
    return buffer;
}

size_t StagingPool::lent() const {
    size_t lent = 0;
    for (const SizeClass& each : classes_)
        lent += each.buffers.size() - each.idle.size() - each.left.size();
    return lent;
}

Result<StagingPool::Buffer*> StagingPool::find_over(SizeClass& of) {
    const size_t looks = std::min(kLooks, of.left.size());
    for (size_t i = 0; i < looks; ++i) {
        Buffer& oldest = *of.left.front();
        GPURUN_ASSIGN(const bool over, device_.query(oldest.copied));
        of.left.remove(oldest);
        if (over)
            return &oldest;
        of.left.push_back(oldest);
    }
    if (of.left.empty() || of.buffers.size() * of.bytes < kMostBytes)
        return nullptr;
    Buffer& oldest = *of.left.front();
    GPURUN_TRY(device_.synchronize(oldest.copied));
    of.left.remove(oldest);
    return &oldest;
}

Result<void> StagingPool::grow(size_t size_class) {
    SizeClass& grown = classes_[size_class];
    GPURUN_ASSIGN(void* const block, device_.allocate_pinned(grown.in_block * grown.bytes));
    blocks_.push_back(block);
    grown.idle.reserve(grown.buffers.size() + grown.in_block);
    for (size_t i = 0; i < grown.in_block; ++i) {
        GPURUN_ASSIGN(const device::Event event, device_.create_event());
        Buffer& made = grown.buffers.emplace_back();
        made.data = static_cast<std::byte*>(block) + i * grown.bytes;
        made.copied = event;
        made.size_class = size_class;
        grown.idle.push_back(&made);
    }
    return {};
}

} // namespace gpurun::transfer
