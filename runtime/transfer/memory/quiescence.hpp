// Quiescence: a time in which calls that wait for the whole device may be made.
//
// CUDA's calls that free and unmap wait for everything that is enqueued, and block all other calls of the process
// meanwhile (tests/device/call_facts.cu). If no rank captures messages, everything enqueued ends by itself, since
// nothing is enqueued before what it waits for. But a run of a graph may wait for a run that its peer has not launched
// yet, and the peer may be waiting for a call of this process: a deadlock.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

namespace gpurun::transfer {

// As long as it lives, no run of a graph is under way or begins, and no stream waits for a peer. Empty: not possible
// now.
using Quiescence = std::optional<std::unique_lock<std::mutex>>;
using TryQuiescence = std::function<Quiescence()>; // REQUIRES the engine lock

} // namespace gpurun::transfer
