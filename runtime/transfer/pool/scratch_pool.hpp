// Scratch memory of collectives: what other ranks' contributions are received into, and copies that the CPU reduces.
//
// A block is lent to one run at a time. What a run has enqueued may go on using it when it is given back, so an event
// says when that is over. A later run in the same stream need not ask; in another it waits for the event there. A block
// of a captured run is the graph's until that is gone. Blocks are kept: once as many as needed have been made, taking
// one allocates nothing, and its mappings in other ranks stay. One pool a rank; used under the engine lock.
#pragma once

#include "transfer/operand.hpp"
#include "transfer/pool/event_pool.hpp"

#include <atomic>
#include <deque>
#include <memory>

namespace gpurun::transfer {

class ScratchPool {
  public:
    static constexpr size_t kMostKept = size_t{256} << 20; // bytes that are made rather than waited for in a stream

    enum class Kind : uint8_t { kHost, kPinned, kDevice };
    struct Block {
        std::byte* data = nullptr;
        device::Buffer where;

      private:
        friend class ScratchPool;
        Kind kind = Kind::kHost;
        size_t bytes = 0;
        bool lent = false;
        EventLease over;                               // behind what the run before has enqueued; none: it is over
        uint64_t stream = 0;                           // in which that was (Device::name())
        std::shared_ptr<std::atomic<bool>> graph_gone; // set (release) when its graph is; null: it is no graph's
    };

    ScratchPool(device::Device& device, EventPool& events) : device_(device), events_(events) {}
    ~ScratchPool();

    // For what is done, or enqueued, in this order domain from now on. kMemory if there is none left.
    base::Result<Block*> take(Kind kind, size_t bytes, const Operand& order);
    // Everything that uses it is over, or is enqueued in this order domain.
    void give_back(Block& block, const Operand& order);
    // Nothing has used it. What used it before may not be over yet.
    void give_back_unused(Block& block) { block.lent = false; }
    size_t lent() const; // not given back yet, or dropped

  private:
    base::Result<Block*> find(Kind kind, size_t bytes, const Operand& order); // null if none is there
    base::Result<bool> is_over(Block& block);
    base::Result<Block*> make(Kind kind, size_t bytes);
    base::Result<void> mark_end(Block& block, const Operand& order);

    device::Device& device_;
    EventPool& events_;
    std::deque<Block> blocks_;
    size_t made_ = 0; // bytes of all blocks
};

} // namespace gpurun::transfer
