// A stream's work, captured once, as often as it is launched.
#pragma once

#include "pair.hpp"

#include <gpurun/gpurun.h>

#include <functional>
#include <string>

namespace gpurun::bench {

class Captured {
  public:
    // What `enqueue` enqueues in the stream. All ranks that it concerns capture at once: a captured receive waits for
    // its match.
    Captured(gpurun_stream stream, const std::function<void()>& enqueue);
    ~Captured(); // after its last run
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

    void launch(gpurun_stream stream) const;

  private:
    gpurun_graph graph_ = nullptr;
};

// Why messages between the ranks of some pair, or between any two ranks, cannot be captured, or "". All ranks of the
// job at once.
std::string why_not_captured(const Pair& pair, bool any_two);

} // namespace gpurun::bench
