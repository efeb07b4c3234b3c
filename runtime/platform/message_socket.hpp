// One end of a SOCK_SEQPACKET pair: whole messages, each with at most one file descriptor (SCM_RIGHTS).
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace gpurun::platform {

class MessageSocket {
  public:
    static constexpr size_t kLargestMessage = 4096;

    MessageSocket() = default;
    explicit MessageSocket(UniqueFd fd) : fd_(std::move(fd)) {}
    static base::Result<std::array<MessageSocket, 2>> pair(); // both close on exec
    static bool is_one(int fd); // as far as a number can tell: a socket that keeps messages apart

    struct Received {
        size_t bytes = 0; // 0: the other end is closed
        UniqueFd fd;
    };

    // kLauncher if the other end is closed. `fd` stays the caller's; -1 sends none.
    base::Result<void> send(std::span<const std::byte> message, int fd = -1);
    // Waits. A message longer than `buffer` is an error.
    base::Result<Received> receive(std::span<std::byte> buffer);

    // The same without waiting: false if the other end does not read, nothing if there is no message.
    base::Result<bool> try_send(std::span<const std::byte> message, int fd = -1);
    base::Result<std::optional<Received>> try_receive(std::span<std::byte> buffer);

    int fd() const { return fd_.get(); }
    explicit operator bool() const { return static_cast<bool>(fd_); }

  private:
    base::Result<bool> send_with(std::span<const std::byte> message, int fd, int flags);
    base::Result<std::optional<Received>> receive_with(std::span<std::byte> buffer, int flags);

    UniqueFd fd_;
};

} // namespace gpurun::platform
