// Streams and events for what is captured into graphs. They are used again once their capture, or their graph, is gone.
// Used under the engine lock.
#pragma once

#include "device/capability/graphs.hpp"
#include "device/device.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

namespace gpurun::transfer {

class CapturePool {
  public:
    // The first `reserved` streams are taken from those that the device has reserved.
    CapturePool(device::Device& device, size_t reserved)
        : device_(device), graphs_(device.graphs()), reserved_(reserved) {}
    ~CapturePool();

    // A stream that is not captured: it becomes a branch of the graph, for one message, once it awaits what is.
    base::Result<device::Stream> take_branch();
    // What is in `captured` so far. The event is recorded nowhere else before the graph is gone: CUDA crashes where a
    // thread does so while another ends the capture (tests/device/capture_events.cu).
    base::Result<device::Event> mark(device::Stream captured);
    // Enqueue: what follows in `second` starts after what is in `first`, which is captured; `second` may join the
    // capture by that.
    base::Result<void> order(device::Stream first, device::Stream second);

  private:
    struct OrderEvent {
        device::Event event;
        std::shared_ptr<std::atomic<bool>> unused; // set (release) when the graph is gone
    };
    base::Result<OrderEvent*> take_event();

    device::Device& device_;
    device::Graphs* const graphs_; // null: no stream is ever captured
    const size_t reserved_;
    std::vector<device::Stream> branches_;
    std::deque<OrderEvent> events_;
    size_t next_event_ = 0; // where to look for an unused one: graphs mostly go in the order in which they came
};

} // namespace gpurun::transfer
