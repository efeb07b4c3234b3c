// Descriptors that another process of the same user asks for by a number, whose meaning is the server's: memory that
// the system knows by descriptors alone. A thread answers, whatever the other threads of the process do. No ptrace and
// no pidfd_getfd(), which containers forbid; but both processes are in one network namespace.
#pragma once

#include "base/status.hpp"
#include "platform/message_socket.hpp"
#include "platform/quiet_thread.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpurun::platform {

// Of a server, for its clients: plain bytes, sent as they are.
struct DescriptorAddress {
    uint64_t name = 0; // of its socket
    uint64_t key = 0;  // which strangers do not know
};

struct OfferedDescriptor {
    UniqueFd fd;
    std::array<uint64_t, 3> facts{}; // what the server says of it
};

class DescriptorServer {
  public:
    // Called by the server's thread.
    using Serve = std::function<base::Result<OfferedDescriptor>(uint64_t number)>;

    static base::Result<std::unique_ptr<DescriptorServer>> start(Serve serve);
    ~DescriptorServer();
    DescriptorServer(const DescriptorServer&) = delete;
    DescriptorServer& operator=(const DescriptorServer&) = delete;

    const DescriptorAddress& address() const { return address_; }

  private:
    DescriptorServer(const DescriptorAddress& address, UniqueFd listener, UniqueFd stop, Serve serve)
        : address_(address), listener_(std::move(listener)), stop_(std::move(stop)), serve_(std::move(serve)) {}

    void run();
    void accept();
    bool answer(MessageSocket& client); // false: no more of it

    const DescriptorAddress address_;
    const UniqueFd listener_;
    const UniqueFd stop_; // readable: it is to end
    const Serve serve_;
    std::vector<MessageSocket> clients_;
    bool is_full_ = false; // of descriptors
    QuietThread thread_{};
    bool running_ = false;
};

class DescriptorClient {
  public:
    static base::Result<DescriptorClient> connect(const DescriptorAddress& address);
    // The server's error if it gives none; kTimeout if it does not answer, as when it is stopped.
    base::Result<OfferedDescriptor> ask(uint64_t number);

  private:
    DescriptorClient(uint64_t key, MessageSocket server) : key_(key), server_(std::move(server)) {}

    uint64_t key_;
    MessageSocket server_;
};

} // namespace gpurun::platform
