#include "platform/fabric/tcp_connections.hpp"

#include <cstdlib>
#include <dirent.h>
#include <linux/tcp.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace gpurun::platform {

namespace {

constexpr int kEstablished = 1; // TCP_ESTABLISHED, which is only in the header of libc that does not go with this one

// None: it is none.
std::optional<TcpConnection> connection_of(int fd) {
    sockaddr_storage end{};
    socklen_t bytes = sizeof end;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&end), &bytes) != 0)
        return std::nullopt;
    const auto peer = NetworkAddress::read({reinterpret_cast<const std::byte*>(&end), bytes});
    tcp_info info{};
    bytes = sizeof info;
    if (!peer || ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_state != kEstablished)
        return std::nullopt;
    return TcpConnection{*peer, info.tcpi_unacked != 0 || info.tcpi_probes != 0, info.tcpi_last_ack_recv};
}

} // namespace

std::vector<TcpConnection> tcp_connections() {
    std::vector<TcpConnection> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
    if (!folder)
        return found;
    while (const dirent* const each = ::readdir(folder.get()))
        if (auto connection = connection_of(std::atoi(each->d_name)))
            found.push_back(*connection);
    return found;
}

} // namespace gpurun::platform
