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

// Of one that is lost, or about to be.
inline base::Error died(const transfer::Peer& peer) {
    if (!peer.channel().is_cut_off())
        return died(peer.rank());
    return base::error(base::Status::kPeerLost, "rank {} cannot be reached any more; standard error says why",
                       peer.rank().value);
}

// It lives, but has called gpurun_finalize().
inline base::Error left_off(base::WorldRank rank) {
    return base::error(base::Status::kFinalized,
                       "rank {} has called gpurun_finalize(): it sends, receives and takes part in nothing any more",
                       rank.value);
}

} // namespace gpurun::comm
