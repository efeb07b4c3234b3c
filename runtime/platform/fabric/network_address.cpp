#include "platform/fabric/network_address.hpp"

#include "base/format.hpp"
#include "base/read_number.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

namespace gpurun::platform {

namespace {

constexpr std::array<uint8_t, 12> kCarriesV4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_v4(const NetworkAddress& address) {
    return std::equal(kCarriesV4.begin(), kCarriesV4.end(), address.host.begin());
}

NetworkAddress from_v4(const in_addr& host) {
    NetworkAddress address;
    std::copy(kCarriesV4.begin(), kCarriesV4.end(), address.host.begin());
    std::memcpy(address.host.data() + kCarriesV4.size(), &host, sizeof host);
    return address;
}

NetworkAddress from_v6(const in6_addr& host) {
    NetworkAddress address;
    std::memcpy(address.host.data(), &host, sizeof host);
    return address;
}

bool is_in_network(const NetworkAddress& address, const NetworkAddress& network, uint32_t bits) {
    for (size_t i = 0; i < address.host.size() && bits != 0; ++i) {
        const uint32_t here = std::min(bits, 8U);
        const auto mask = static_cast<uint8_t>(0xff00U >> here);
        if (((address.host[i] ^ network.host[i]) & mask) != 0)
            return false;
        bits -= here;
    }
    return true;
}

bool is_at_interface(const NetworkAddress& address, const std::string& name) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0)
        return false;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || name != each->ifa_name)
            continue;
        const size_t bytes = each->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        const auto its = NetworkAddress::read({reinterpret_cast<const std::byte*>(each->ifa_addr), bytes});
        if (its && its->is_same_host(address))
            return true;
    }
    return false;
}

} // namespace

std::optional<NetworkAddress> NetworkAddress::read(std::span<const std::byte> bytes) {
    sa_family_t family = AF_UNSPEC;
    if (bytes.size() < sizeof family)
        return std::nullopt;
    std::memcpy(&family, bytes.data(), sizeof family);
    NetworkAddress address;
    if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
        sockaddr_in v4{};
        std::memcpy(&v4, bytes.data(), sizeof v4);
        address = from_v4(v4.sin_addr);
        address.port = ntohs(v4.sin_port);
        return address;
    }
    if (family != AF_INET6 || bytes.size() < sizeof(sockaddr_in6))
        return std::nullopt;
    sockaddr_in6 v6{};
    std::memcpy(&v6, bytes.data(), sizeof v6);
    address = from_v6(v6.sin6_addr);
    address.port = ntohs(v6.sin6_port);
    return address;
}

std::optional<NetworkAddress> NetworkAddress::parse(const std::string& text) {
    in_addr v4{};
    if (::inet_pton(AF_INET, text.c_str(), &v4) == 1)
        return from_v4(v4);
    in6_addr v6{};
    if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1)
        return from_v6(v6);
    return std::nullopt;
}

bool NetworkAddress::is_reachable() const {
    if (is_v4(*this))
        return host[kCarriesV4.size()] != IN_LOOPBACKNET;
    in6_addr v6{};
    std::memcpy(&v6, host.data(), sizeof v6);
    return !IN6_IS_ADDR_LOOPBACK(&v6) && !IN6_IS_ADDR_LINKLOCAL(&v6);
}

bool NetworkAddress::is_at(const std::string& place) const {
    const size_t slash = place.find('/');
    const std::optional<NetworkAddress> named = parse(place.substr(0, slash));
    if (!named)
        return is_at_interface(*this, place);
    if (slash == std::string::npos)
        return is_same_host(*named);
    const uint32_t before = is_v4(*named) ? 8 * kCarriesV4.size() : 0;
    uint32_t bits = 0;
    if (!base::read_number<uint32_t>(place.substr(slash + 1), 0, 8 * host.size() - before, bits))
        return false;
    return is_in_network(*this, *named, before + bits);
}

std::string NetworkAddress::host_text() const {
    char text[INET6_ADDRSTRLEN] = {};
    const bool v4 = is_v4(*this);
    const uint8_t* const bytes = host.data() + (v4 ? kCarriesV4.size() : 0);
    return ::inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text, sizeof text) != nullptr ? text : "";
}

std::string NetworkAddress::text() const {
    return is_v4(*this) ? base::format("{}:{}", host_text(), port) : base::format("[{}]:{}", host_text(), port);
}

} // namespace gpurun::platform
