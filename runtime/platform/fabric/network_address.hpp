// Addresses of the Internet, as libfabric's providers over TCP and those of InfiniBand have them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gpurun::platform {

struct NetworkAddress {
    std::array<uint8_t, 16> host{}; // of IPv4: as IPv6 carries it
    uint16_t port = 0;

    // Of a sockaddr; none: it is of another kind.
    static std::optional<NetworkAddress> read(std::span<const std::byte> bytes);
    // Without a port, as people write it.
    static std::optional<NetworkAddress> parse(const std::string& text);

    bool is_same_host(const NetworkAddress& other) const { return host == other.host; }
    // Whether other machines reach it.
    bool is_reachable() const;
    // Whether it is the host, in the network (10.1.0.0/16), or at the interface of this machine.
    bool is_at(const std::string& place) const;
    std::string host_text() const;
    std::string text() const; // with its port
};

} // namespace gpurun::platform
