// gpurun --node-daemon: runs the ranks of one node for the gpurun that the user has started (head.hpp).
//
// Its standard input says whom to call, and with which key. It is a Job without the front: it does what its head says,
// and tells it what happens (node_wire.hpp). Without its head it ends its ranks and itself.
#pragma once

namespace gpurun::launcher {

// Returns the daemon's exit status. `environment` is its own.
int run_node_daemon(const char* const* environment);

} // namespace gpurun::launcher
