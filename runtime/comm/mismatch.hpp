// Two ranks that have called a collective differently, or one that could not carry it out. Travels between processes.
#pragma once

#include "base/status.hpp"
#include "comm/signature.hpp"

#include <type_traits>

namespace gpurun::comm {

struct Mismatch {
    // Of the same place in the order of the communicator's collectives.
    struct Call {
        uint64_t signature;
        uint64_t bytes; // where the signatures agree: that the first sends to the second, and that this expects
        WorldRank rank;
        uint32_t failed = 0; // with that status
    };
    Call first;
    Call second;

    // What `rank` has called has failed there, and the others may wait for it.
    static Mismatch failure(uint64_t signature, WorldRank rank, base::Status status) {
        return {{signature, 0, rank, static_cast<uint32_t>(status)}, {0, 0, rank}};
    }
    // A failure that may be everybody's own. Those who wait are to end with it, and whose part is over need not know.
    bool is_for_those_who_wait() const {
        return failed() == base::Status::kUnsupported || failed() == base::Status::kFinalized;
    }

    // It names ranks of the job.
    base::Error error() const {
        if (failed() != base::Status::kOk)
            return base::error(
                is_for_those_who_wait() ? failed() : base::Status::kCollective, "rank {} could not carry out {}: {}",
                first.rank.value, Signature(first.signature).text(),
                failed() == base::Status::kFinalized ? "a rank that it needs has called gpurun_finalize()"
                                                     : "the error that its own call has returned says why");
        if (first.signature != second.signature)
            return base::error(base::Status::kCollective,
                               "rank {} called {}, and rank {} called {}: all ranks of a communicator call the same "
                               "collectives, in the same order, with arguments that agree",
                               first.rank.value, Signature(first.signature).text(), second.rank.value,
                               Signature(second.signature).text());
        return base::error(base::Status::kCollective,
                           "rank {} sends {} bytes to rank {} by {}, where that expects {}: the counts and types of "
                           "both must agree",
                           first.rank.value, first.bytes, second.rank.value, Signature(first.signature).text(),
                           second.bytes);
    }

  private:
    base::Status failed() const { return static_cast<base::Status>(first.failed); } // kOk: it has not
};
static_assert(std::is_trivially_copyable_v<Mismatch> && sizeof(Mismatch) == 48);

// What a rank exchanges with another one by a collective. Travels between processes.
struct CallNote {
    static constexpr uint64_t kAnyLength = UINT64_MAX;

    uint32_t sends = 0; // messages to the other rank
    uint32_t receives = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0; // or kAnyLength

    // Whether its sends are what the other one receives.
    bool brings(const CallNote& other) const {
        return sends == other.receives && (other.received_bytes == kAnyLength || sent_bytes == other.received_bytes);
    }
};
static_assert(std::is_trivially_copyable_v<CallNote> && sizeof(CallNote) == 24);

} // namespace gpurun::comm
