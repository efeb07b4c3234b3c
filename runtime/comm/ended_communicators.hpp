// What follows once the program has freed a communicator: nothing, as long as requests, schedules or calls still use
// it. Then it ends on this rank. Messages that have come for it, and those that still come, are taken in and dropped,
// so that their senders get their room back. The process that gave its id is told: when all members have told, it gives
// the index again.
//
// Nobody waits for any of this. It is done as the rank makes progress. Used under the engine lock.
#pragma once

#include "comm/core.hpp"

#include <vector>

namespace gpurun::comm {

class EndedCommunicators {
  public:
    explicit EndedCommunicators(Core& core) : core_(core) {}

    // Ends those that nothing uses any more, and tells who gave their ids.
    void run() GPURUN_REQUIRES(engine_lock) {
        if (core_.communicators().any_closed() || !untold_.empty()) [[unlikely]]
            end_unused();
    }
    // A message that no receive has taken. True if it is for nobody, and is dealt with here.
    bool take(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
              std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);

    // Takes in a message that is for nobody.
    void drop(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
              std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);
    // And all that have come, and that fit.
    void drop_unexpected(const Pattern& pattern) GPURUN_REQUIRES(engine_lock);

  private:
    void end_unused() GPURUN_REQUIRES(engine_lock);
    void drop_unexpected(const Communicator& ended) GPURUN_REQUIRES(engine_lock);
    // False: there was no room for it.
    bool tell(uint32_t id) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    std::vector<uint32_t>
        untold_; // ids of those that have ended; bounded by the communicators that there were together
};

} // namespace gpurun::comm
