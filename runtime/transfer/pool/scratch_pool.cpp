#include "transfer/pool/scratch_pool.hpp"

#include "base/format.hpp"
#include "device/capability/graphs.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr size_t kLeastBytes = 4096; // of a block

} // namespace

ScratchPool::~ScratchPool() {
    for (const Block& each : blocks_) // a failed device keeps its memory; nothing to do
        if (each.kind == Kind::kHost)
            std::free(each.data);
        else
            (void)(each.kind == Kind::kPinned ? device_.free_pinned(each.data) : device_.free(each.data));
}

Result<ScratchPool::Block*> ScratchPool::take(Kind kind, size_t bytes, const Operand& order) {
    const size_t rounded = std::bit_ceil(std::max(bytes, kLeastBytes));
    GPURUN_ASSIGN(Block * block, find(kind, rounded, order));
    if (block == nullptr) {
        GPURUN_ASSIGN(block, make(kind, rounded));
    }
    block->lent = true;
    return block;
}

Result<bool> ScratchPool::is_over(Block& block) {
    if (block.graph_gone && !block.graph_gone->load(std::memory_order_acquire))
        return false;
    block.graph_gone.reset();
    if (!block.over)
        return true;
    GPURUN_ASSIGN(const bool over, device_.query(block.over.get()));
    if (over)
        block.over.reset();
    return over;
}

// One that the stream has used last, which needs nothing; else one that nothing uses any more; else, if there are many,
// one that another stream uses, for which this one waits.
Result<ScratchPool::Block*> ScratchPool::find(Kind kind, size_t bytes, const Operand& order) {
    const bool may_wait = order.on_stream() && !order.captured();
    const auto fits = [&](const Block& each) { return !each.lent && each.kind == kind && each.bytes == bytes; };
    if (may_wait) {
        GPURUN_ASSIGN(const uint64_t stream, device_.name(order.stream));
        for (Block& each : blocks_)
            if (fits(each) && each.over && each.stream == stream)
                return &each;
    }
    Block* busy = nullptr;
    for (Block& each : blocks_) {
        if (!fits(each))
            continue;
        GPURUN_ASSIGN(const bool over, is_over(each));
        if (over)
            return &each;
        if (may_wait && each.over)
            busy = &each;
    }
    if (busy == nullptr || made_ + bytes <= kMostKept)
        return nullptr;
    GPURUN_TRY(device_.await_event(order.stream, busy->over.get()));
    return busy;
}

Result<ScratchPool::Block*> ScratchPool::make(Kind kind, size_t bytes) {
    void* memory = nullptr;
    if (kind == Kind::kHost) {
        memory = std::aligned_alloc(kLeastBytes, bytes);
        if (memory == nullptr)
            return base::error(base::Status::kMemory, "no memory for {} bytes that a collective needs", bytes);
    } else {
        GPURUN_ASSIGN(memory, kind == Kind::kPinned ? device_.allocate_pinned(bytes) : device_.allocate(bytes));
    }
    Block& made = blocks_.emplace_back();
    made.kind = kind;
    made.data = static_cast<std::byte*>(memory);
    made.bytes = bytes;
    made_ += bytes;
    if (kind != Kind::kHost) {
        GPURUN_ASSIGN(made.where, device_.describe(memory, bytes));
    }
    return &made;
}

// Where the end cannot be told, the block stays lent: it is not used again.
void ScratchPool::give_back(Block& block, const Operand& order) {
    if (!order.on_stream() || mark_end(block, order))
        block.lent = false;
}

Result<void> ScratchPool::mark_end(Block& block, const Operand& order) {
    if (!order.captured()) {
        GPURUN_ASSIGN(block.stream, device_.name(order.stream));
        GPURUN_ASSIGN(const device::Event event, events_.record(order.stream));
        block.over = EventLease(events_, event);
        return {};
    }
    const auto gone = [](void* argument) {
        const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> flag(
            static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
        (*flag)->store(true, std::memory_order_release);
    };
    block.graph_gone = std::make_shared<std::atomic<bool>>(false);
    return device_.graphs()->at_graph_end(order.stream, gone, new std::shared_ptr<std::atomic<bool>>(block.graph_gone));
}

size_t ScratchPool::lent() const {
    return static_cast<size_t>(
        std::count_if(blocks_.begin(), blocks_.end(), [](const Block& each) { return each.lent; }));
}

} // namespace gpurun::transfer
