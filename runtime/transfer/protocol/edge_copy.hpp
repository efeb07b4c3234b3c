// One copy into the receiver's buffer, between the two edges of a slot: it waits for the forward edge, and signals the
// backward edge. Of eager buffers and of the source's own memory (pull).
//
// Made by the CPU if both are host memory and the receive is in the host's order; else by a stream: by a kernel, which
// waits and signals itself, by a copy engine, or by a host function.
#pragma once

#include "transfer/state.hpp"

namespace gpurun::transfer {

class EdgeCopy : public ReceiveState {
  public:
    Activity activity(const Receive& receive) const override;
    base::Result<void> advance(Receive& receive) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;
    base::Result<bool> is_complete_without_peer(const Receive& receive, const CompletionPoint& end) const override;
    base::Result<bool> complete_into(Receive& receive, device::Stream stream) override;
    bool ends_by_itself() const override { return fused_; }

  protected:
    struct From {
        const std::byte* address = nullptr;
        bool in_host_memory = true;
        bool by_device = false;     // kernels reach it
        bool in_host_order = false; // its source is: no stream waits there, unless its request is completed into one
    };
    // `source_awaits`: the source's stream will wait for the backward edge, so its signal has to be enqueued on return.
    base::Result<void> copy(Receive& receive, const From& from, const Slot& slot, bool source_awaits);
    // Before copy(), of a request that waits for nothing any more: others do the same.
    void begin_early() { begins_early_ = true; }
    // The backward edge was signalled, or its signal is enqueued.
    bool has_signalled() const { return !by_cpu_; }
    const Slot& slot() const { return slot_; }
    void set_slot(const Slot& slot) { slot_ = slot; }

  private:
    base::Result<void> copy_by_cpu(Receive& receive);
    base::Result<bool> take_bulk(Receive& receive, Fence& fence, bool ready);
    base::Result<void> copy_in_stream(Receive& receive);
    bool suits_kernel(Receive& receive) const;
    device::FencedCopy fenced_copy(Receive& receive, Fence& fence, bool kernel_waits) const;
    base::Result<void> pull_in_exchange(Receive& receive, Fence& fence, bool ready);
    base::Result<void> pull_fused(Receive& receive, Fence& fence);
    base::Result<void> copy_by_kernel(Receive& receive, Fence& fence, bool ready, bool kernel_waits);
    base::Result<void> copy_by_engine(Receive& receive, Fence& fence, bool ready);

    From from_;
    Slot slot_{};
    bool by_cpu_ = false; // the CPU copies, once the forward edge has come
    bool fused_ = false;  // a kernel copies, which it may share (FusedMessages)
    bool begins_early_ = false;
};

} // namespace gpurun::transfer
