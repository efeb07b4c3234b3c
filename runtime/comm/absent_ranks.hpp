// The errors of operations that need a rank which is not there any more.
#pragma once

#include "base/format.hpp"
#include "base/status.hpp"
#include "base/world_rank.hpp"
#include "transfer/peer.hpp"

namespace gpurun::comm {

inline base::Error died(base::WorldRank rank) {
    return base::error(base::Status::kPeerLost, "rank {} has died; gpurun's own message says how", rank.value);
}

// Of one that is lost, or about to be, which may live.
inline base::Error lost(const transfer::Peer& peer) {
    const transfer::PeerChannel& channel = peer.channel();
    if (channel.is_unwatched())
        return base::error(base::Status::kPeerLost,
                           "the supervisor of this job has died, so its ranks have lost each other: rank {} is lost to "
                           "this one",
                           peer.rank().value);
    if (channel.is_cut_off())
        return base::error(base::Status::kPeerLost, "rank {} cannot be reached any more; standard error says why",
                           peer.rank().value);
    return died(peer.rank());
}

// It lives, but has called gpurun_finalize().
inline base::Error left_off(base::WorldRank rank) {
    return base::error(base::Status::kFinalized,
                       "rank {} has called gpurun_finalize(): it sends, receives and takes part in nothing any more",
                       rank.value);
}

} // namespace gpurun::comm
