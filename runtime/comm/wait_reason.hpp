// What a call waits for. A few stores to fill; read under the engine lock, only for wait reports
// (comm/wait_report.hpp).
#pragma once

#include "comm/request.hpp"

#include <cstdint>
#include <span>

namespace gpurun::comm {

struct WaitReason {
    enum class Kind { kMessages, kRequests, kProbe, kStream, kEvent, kRanks, kOwnMessages, kUnmapping };

    Kind kind = Kind::kMessages;
    bool any = false;                                // kRequests: one is enough
    bool into_stream = false;                        // kRequests: until they are enqueued
    uint32_t step = 0;                               // kRanks: of gpurun_finalize()
    std::span<transfer::Send* const> sends = {};     // kMessages
    std::span<PostedReceive* const> receives = {};   // kMessages
    std::span<const uint64_t> requests = {};         // kRequests, by their names
    const CollectiveOp* collective = nullptr;        // kMessages, of a collective
    const Pattern* pattern = nullptr;                // kProbe
    const void* handle = nullptr;                    // kStream, kEvent
    const std::vector<WorldRank>* holders = nullptr; // kUnmapping: ranks that have it mapped
};

struct Waits; // the list of those that wait

// A call that waits: in the list from the time that it has looked for more than a moment, until it ends.
struct WaitingCall : base::Linked<WaitingCall, Waits> {
    explicit WaitingCall(const WaitReason& reason_) : reason(reason_) {}

    const WaitReason& reason;
    const char* call = nullptr;
    uint64_t thread = 0;
    int64_t since_ns = 0;
};

} // namespace gpurun::comm
