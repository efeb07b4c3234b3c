// What the ranks of a node have recorded (--trace), on its way to the head, which asks for it part by part.
//
// Runs on the thread of the event loop, once all ranks have ended.
#pragma once

#include "node_wire.hpp"
#include "tracing.hpp"

#include <functional>
#include <string_view>

namespace gpurun::launcher {

class NodeTraces {
  public:
    using Send = std::function<void(node_wire::Kind, std::string_view)>;
    // `first` is the number of the first rank in the job. `tracing` outlives this.
    NodeTraces(Tracing& tracing, uint32_t first, Send send);

    // False: no head of ours asks that.
    bool take_request(std::string_view message);
    // The head has all, or wants none.
    void finish() { finished_ = true; }
    bool finished() const { return finished_; }

  private:
    Tracing& tracing_;
    uint32_t first_;
    Send send_;
    bool finished_ = false;
};

} // namespace gpurun::launcher
