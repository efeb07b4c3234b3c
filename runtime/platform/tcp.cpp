#include "platform/tcp.hpp"

#include "platform/system_error.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace gpurun::platform {

namespace {

constexpr int kCallersThatWait = 256;
constexpr const char* kLoopback = "127.0.0.1";

// As people write it; an IPv4 address that IPv6 carries, as IPv4.
std::string text_of(const sockaddr_storage& address) {
    char text[INET6_ADDRSTRLEN] = {};
    if (address.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &address, sizeof v4);
        return ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text) != nullptr ? text : "";
    }
    if (address.ss_family != AF_INET6)
        return "";
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text) != nullptr ? text : "";
    return ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text) != nullptr ? text : "";
}

void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// What is sent is short and awaited, and silence is not mistaken for a peer that lives. The user timeout ends also a
// connection whose other end answers but has no room: a peer must not let what it is sent lie for kDeadLinkMs.
void prepare(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kDeadLinkMs); // of keep-alives that nobody answers, too
}

UniqueFd open_socket(int family) { return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

base::Result<TcpListener> listen_on(UniqueFd fd) {
    sockaddr_storage bound{};
    socklen_t length = sizeof bound;
    if (::listen(fd.get(), kCallersThatWait) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
        return system_error("listening for nodes");
    uint16_t port = 0; // at the same place in both families
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    std::memcpy(&port, reinterpret_cast<const std::byte*>(&bound) + offsetof(sockaddr_in, sin_port), sizeof port);
    return TcpListener{std::move(fd), ntohs(port)};
}

// Addresses that name this host only on one of its links, or to itself, are no use to others.
bool is_for_others(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET)
        return true;
    if (address.ss_family != AF_INET6)
        return false;
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    return !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

} // namespace

base::Result<TcpListener> TcpListener::create() {
    // Without IPv6 in the kernel, IPv4 alone.
    if (UniqueFd both = open_socket(AF_INET6)) {
        set_option(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
        sockaddr_in6 any{};
        any.sin6_family = AF_INET6;
        any.sin6_addr = in6addr_any;
        if (::bind(both.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
            return listen_on(std::move(both));
    }
    UniqueFd fd = open_socket(AF_INET);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
        return system_error("opening a port for nodes");
    return listen_on(std::move(fd));
}

base::Result<UniqueFd> TcpListener::accept() const {
    UniqueFd caller(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int failed = errno;
    if (caller) {
        prepare(caller.get());
        return caller;
    }
    // Who has hung up meanwhile is no error of ours.
    if (failed == EMFILE || failed == ENFILE || failed == ENOMEM || failed == ENOBUFS)
        return system_error("taking a call of a node", failed);
    return UniqueFd();
}

base::Result<std::vector<std::string>> own_addresses() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0)
        return system_error("reading this host's addresses");
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
    std::vector<std::string> addresses;
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        const int family = each->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6)
            continue;
        sockaddr_storage address{};
        std::memcpy(&address, each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        if (const std::string text = text_of(address); is_for_others(address) && !text.empty())
            addresses.push_back(text);
    }
    if (addresses.empty())
        addresses.emplace_back(kLoopback);
    // IPv4 first: where both work, either does; where IPv6 is half set up, calling it takes long to fail.
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const std::string& text) { return text.find(':') == std::string::npos; });
    return addresses;
}

base::Result<UniqueFd> call_tcp(const std::string& address, uint16_t port) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    const bool is_v4 = ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1;
    if (!is_v4 && ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) != 1)
        return base::Error{base::Status::kArgument, "'" + address + "' is not an address"};
    UniqueFd fd = open_socket(is_v4 ? AF_INET : AF_INET6);
    if (!fd)
        return system_error("opening a connection");
    prepare(fd.get());
    const int called = is_v4 ? ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4)
                             : ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
    if (called != 0 && errno != EINPROGRESS)
        return system_error("calling " + address);
    return fd;
}

base::Result<void> is_connected(int fd) {
    int failed = 0;
    socklen_t length = sizeof failed;
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) != 0)
        failed = errno;
    if (failed != 0)
        return system_error("calling", failed);
    return {};
}

std::string own_address_of(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? text_of(address) : "";
}

std::string peer_address_of(int fd) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? text_of(address) : "";
}

} // namespace gpurun::platform
