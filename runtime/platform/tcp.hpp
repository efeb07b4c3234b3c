// TCP between the parts of a job on several nodes: one listens, the others call. Every descriptor here is non-blocking.
//
// A peer that stops answering (its host is down, a cable is out), or that leaves unread more than the connection holds,
// is noticed by the kernel in kDeadLinkMs: the descriptor becomes readable then, and reading it fails.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::platform {

constexpr int kDeadLinkMs = 2500;

struct TcpListener {
    UniqueFd fd;
    uint16_t port = 0;

    // On all addresses of this host, at a port that the system chooses.
    static base::Result<TcpListener> create();
    // The next caller; an invalid descriptor if there is none.
    base::Result<UniqueFd> accept() const;
};

// The addresses by which other hosts may reach this one, as numbers; that of loopback if there is no other.
base::Result<std::vector<std::string>> own_addresses();

// Starts calling. Wait until the descriptor is writable, then ask is_connected(). REQUIRES: `address` is a number.
base::Result<UniqueFd> call_tcp(const std::string& address, uint16_t port);
// kSystem, with the reason, if the call has failed.
base::Result<void> is_connected(int fd);

// The addresses of the two ends of a connection, as numbers; "" if it has none any more.
std::string own_address_of(int fd);
std::string peer_address_of(int fd);

} // namespace gpurun::platform
