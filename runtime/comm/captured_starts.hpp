// Where the receives that a call starts in captured streams begin: in each stream behind what is put there so far. By
// the thread that captures, under the engine lock.
#pragma once

#include "transfer/resources.hpp"

#include <algorithm>
#include <vector>

namespace gpurun::comm {

class CapturedStarts {
  public:
    explicit CapturedStarts(transfer::Resources& resources) : resources_(resources) {}

    // Marked when it is asked for first.
    base::Result<device::Event> in(device::Stream stream) {
        const auto found =
            std::find_if(starts_.begin(), starts_.end(), [&](const Start& each) { return each.stream == stream; });
        if (found != starts_.end())
            return found->event;
        GPURUN_TRY(resources_.captured_exchange.launch());
        GPURUN_ASSIGN(const device::Event event, resources_.pools.captures.mark(stream));
        starts_.push_back({stream, event});
        return event;
    }

  private:
    struct Start {
        device::Stream stream;
        device::Event event;
    };

    transfer::Resources& resources_;
    std::vector<Start> starts_;
};

} // namespace gpurun::comm
