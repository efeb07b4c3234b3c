// The same bytes between the ranks of a pair by a network alone, without messages: what gpurun between nodes is held
// against. Host memory of the object's own.
//
// One object in each rank, made by both at once. One thread, which spins.
#pragma once

#include "contender.hpp"

#include <memory>
#include <string>

namespace gpurun::bench {

class Network {
  public:
    virtual ~Network() = default;
    Network() = default;
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    virtual std::string how() const = 0;
    // Why there is none, or "". Else nothing below is called.
    virtual std::string why_not() const = 0;
    // Starts so many messages of `bytes`; they need not have left when it returns.
    virtual void send(size_t bytes, int count) = 0;
    // Until all have left, which may take calls of this rank.
    virtual void drain() {}
    // Until the partner's send() of as many has come.
    virtual void receive(size_t bytes, int count) = 0;
};

// A connection of TCP: one system call for each message.
std::unique_ptr<Network> make_tcp(const Pair& pair, size_t bytes);
// Writes of libfabric into the partner's memory (fi_write), by the provider that GPURUN_FABRIC names.
std::unique_ptr<Network> make_fabric(const Pair& pair, size_t bytes);

} // namespace gpurun::bench
