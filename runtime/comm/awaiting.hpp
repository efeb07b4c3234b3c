// What a call in Engine::wait() waits for, as the call knows it. Filled by a few stores; read only when somebody asks
// (comm/standing.cpp), under the engine lock.
#pragma once

#include "base/current_call.hpp"
#include "comm/request.hpp"

#include <cstdint>
#include <span>

namespace gpurun::comm {

struct Awaiting {
    enum class Kind { kMessages, kRequests, kProbe, kStream, kEvent, kRanks, kOwnMessages };

    Kind kind = Kind::kMessages;
    bool any = false;                                // kRequests: one is enough
    bool into_stream = false;                        // kRequests: until they are enqueued
    uint32_t step = 0;                               // kRanks: of gpurun_finalize()
    std::span<transfer::Outgoing* const> sends = {}; // kMessages
    const Receive* receive = nullptr;                // kMessages
    std::span<Request* const> requests = {};         // kRequests
    std::span<const uint64_t> names = {};            // kRequests, of small messages
    const Pattern* pattern = nullptr;                // kProbe
    const void* handle = nullptr;                    // kStream, kEvent
};

struct Waits; // the engine's list

// A call that has looked more than a moment, from then on until it ends.
struct Waiter : base::Linked<Waiter, Waits> {
    explicit Waiter(const Awaiting& what_) : what(what_) {}

    const Awaiting& what;
    const char* call = nullptr;
    uint64_t thread = 0;
    int64_t since_ns = 0;
};

} // namespace gpurun::comm
