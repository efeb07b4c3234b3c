// An endpoint of libfabric, by which ranks of different nodes send each other frames of at most frame_bytes(), and
// write into each other's memory.
//
// libfabric is loaded at run time, so a job of one node needs none. Frames to one peer arrive in the order in which
// they were sent. Who is dead is not asked here: a provider may keep a frame for a dead peer for ever.
//
// One for a rank, since an endpoint takes megabytes. Not thread-safe: whoever owns it has a lock.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gpurun::platform {

class FabricEndpoint {
  public:
    // A frame takes a system call or two, whatever its length. rxm completes longer ones than kFrameBytes out of order.
    static constexpr size_t kLongFrameBytes = 64 * 1024; // of providers that are sockets
    static constexpr size_t kFrameBytes = 16 * 1024;     // of the others; of sockets on nodes of many ranks
    // Of the others there, since rxm keeps some thousand buffers of this length: 12 MiB a rank less, and 25 once it has
    // exchanged messages.
    static constexpr size_t kSmallFrameBytes = 4 * 1024;
    static constexpr size_t kMostAddressBytes = 40;

    struct Options {
        std::string provider = "auto";    // or a name as `fi_info` prints it
        bool may_be_loopback = false;     // nobody on another machine has to reach it
        std::string place = "";           // an interface, an address or a network: no other; "": any
        std::string usual_address = "";   // by which other nodes reach this one: taken if the provider has it
        size_t frame_bytes = kFrameBytes; // or kSmallFrameBytes; sockets have longer ones; the same for all peers
    };
    // What poll() has found. Called by poll().
    class Events {
      public:
        virtual ~Events() = default;
        virtual void on_frame(std::span<const std::byte> frame) = 0; // valid during the call
        virtual void on_written(uint64_t note) = 0;                  // by a peer: the bytes of write() are here
        virtual void on_sent(uint64_t peer) = 0;
        virtual void on_failed(uint64_t peer, const std::string& why) = 0; // a frame or a write to it did not go
    };
    // Memory that a peer may write, as that peer names it.
    struct Landing {
        uint64_t base = 0;
        uint64_t key = 0; // only who has been told of it can guess it
    };
    // Memory that was entered here.
    struct Entered {
        Landing landing;
        void* descriptor = nullptr;
    };

    // kUnsupported: there is no libfabric, or no such provider.
    static base::Result<std::unique_ptr<FabricEndpoint>> open(const Options& options);
    virtual ~FabricEndpoint() = default;

    virtual const std::string& provider() const = 0;
    virtual std::span<const std::byte> address() const = 0;
    // The peer's number for send().
    virtual base::Result<uint64_t> add_peer(std::span<const std::byte> address) = 0;
    virtual size_t frame_bytes() const = 0;
    // Of frame_bytes(), to be filled and sent; null: all are on their way.
    virtual std::byte* free_frame() = 0;
    // Sends what free_frame() gave. False: not now, the frame stays free.
    virtual base::Result<bool> send(uint64_t peer, size_t bytes) = 0;
    virtual bool can_write() const = 0;
    // REQUIRES can_write(), as the next one. Stays entered until the endpoint ends, and so does the memory.
    virtual base::Result<Entered> enter(std::span<std::byte> memory) = 0;
    // Writes bytes of memory that was entered here into the peer's. They stay as they are until the peer answers. When
    // they are there, the peer gets `note`, in order with the frames. False: not now.
    virtual base::Result<bool> write(uint64_t peer, std::span<const std::byte> bytes, const Entered& from,
                                     const Landing& landing, size_t offset, uint64_t note) = 0;
    // Looks once, and gives what there is to `events`. False: there was nothing.
    virtual base::Result<bool> poll(Events& events) = 0;
    // There may have been more than it takes at once, of which wait_fd() does not tell.
    virtual bool may_have_more() const = 0;
    // Readable when poll() may find something, if may_sleep() said so and then poll() found nothing; -1: the provider
    // has no such thing. It may not tell that something was sent.
    virtual int wait_fd() const = 0;
    virtual bool may_sleep() = 0;
};

} // namespace gpurun::platform
