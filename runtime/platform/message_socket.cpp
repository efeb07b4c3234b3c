#include "platform/message_socket.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace gpurun::platform {

base::Result<std::array<MessageSocket, 2>> MessageSocket::pair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return system_error("creating a control socket");
    return std::array<MessageSocket, 2>{MessageSocket(UniqueFd(fds[0])), MessageSocket(UniqueFd(fds[1]))};
}

bool MessageSocket::is_one(int fd) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

base::Result<void> MessageSocket::send(std::span<const std::byte> message, int fd) {
    GPURUN_TRY(send_with(message, fd, 0));
    return {};
}

base::Result<bool> MessageSocket::try_send(std::span<const std::byte> message, int fd) {
    return send_with(message, fd, MSG_DONTWAIT);
}

base::Result<MessageSocket::Received> MessageSocket::receive(std::span<std::byte> buffer) {
    GPURUN_ASSIGN(std::optional<Received> received, receive_with(buffer, 0));
    GPURUN_ASSERT(received.has_value());
    return std::move(*received);
}

base::Result<std::optional<MessageSocket::Received>> MessageSocket::try_receive(std::span<std::byte> buffer) {
    return receive_with(buffer, MSG_DONTWAIT);
}

base::Result<bool> MessageSocket::send_with(std::span<const std::byte> message, int fd, int flags) {
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    ssize_t sent = 0;
    do
        sent = ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return base::error(base::Status::kLauncher, "the other end of the control socket has closed");
    if (sent < 0 && errno == EAGAIN)
        return false;
    if (sent < 0)
        return system_error("sending on the control socket");
    return true;
}

base::Result<std::optional<MessageSocket::Received>> MessageSocket::receive_with(std::span<std::byte> buffer,
                                                                                 int flags) {
    iovec part{buffer.data(), buffer.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got = 0;
    bool reset = false; // the other end has closed without reading all: said once, before what it had sent itself
    do
        got = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
    if (got < 0 && errno == ECONNRESET)
        return std::optional(Received{});
    if (got < 0 && errno == EAGAIN)
        return std::optional<Received>();
    if (got < 0)
        return system_error("receiving on the control socket");
    Received received;
    bool too_many = false;
    received.bytes = static_cast<size_t>(got);
    for (cmsghdr* part_of = CMSG_FIRSTHDR(&header); part_of != nullptr; part_of = CMSG_NXTHDR(&header, part_of)) {
        if (part_of->cmsg_level == SOL_SOCKET && part_of->cmsg_type == SCM_RIGHTS) {
            // Padding leaves room for one more than we want; those that came are ours to close.
            for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= part_of->cmsg_len; at += sizeof(int)) {
                int fd = -1;
                std::memcpy(&fd, CMSG_DATA(part_of) + at, sizeof fd);
                too_many = too_many || received.fd;
                received.fd.reset(fd);
            }
        }
    }
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return base::error(base::Status::kSystem, "a control message is longer than {} bytes", buffer.size());
    if (too_many)
        return base::error(base::Status::kSystem, "a control message carries more than one descriptor");
    return std::optional(std::move(received));
}

} // namespace gpurun::platform
