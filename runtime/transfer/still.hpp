// When the device may be waited for.
//
// Calls that free and unmap wait for all that is enqueued, and no other call of the process gets through meanwhile
// (tests/device/call_facts.cu). Where no rank captures messages, all of it ends by itself: nothing is enqueued before
// what it waits for is. A run of a graph may wait for a run that its peer is yet to launch, and the peer for any call
// of this process; and a message may stand behind such a run.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

namespace gpurun::transfer {

// As long as it lives, such calls wait for nothing of the kind. Empty if that cannot be had now.
using Still = std::optional<std::unique_lock<std::mutex>>;
using KeepStill = std::function<Still()>; // REQUIRES the engine lock

} // namespace gpurun::transfer
