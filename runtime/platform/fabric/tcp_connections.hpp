// What the kernel knows of this process's connections over TCP, those of libfabric's providers among them: whether the
// machine at their other end acknowledges what is sent there. It does so for a process that is stopped, too.
#pragma once

#include "platform/fabric/network_address.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::platform {

struct TcpConnection {
    NetworkAddress peer;
    bool is_awaiting = false;    // something that was sent is not acknowledged
    int64_t acknowledged_ms = 0; // since the last acknowledgement
};

// Those that are established; for rare looks.
std::vector<TcpConnection> tcp_connections();

} // namespace gpurun::platform
