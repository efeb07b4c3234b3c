// A carried channel over a socket pair. It shows what the runtime may ask of a channel without shared memory, and
// nothing above it may know which one it has. A thread, the carrier, reads and writes the socket, so that what streams
// signal crosses while no thread of the rank is in a call.
//
// A socket that ends without a goodbye is a peer that has died.
#pragma once

#include "platform/unique_fd.hpp"
#include "transfer/channel/carried_channel.hpp"

#include <thread>
#include <utility>

namespace gpurun::test {

class SocketChannel final : public transfer::CarriedChannel {
  public:
    static std::pair<platform::UniqueFd, platform::UniqueFd> make_sockets();
    // `own_job` has this rank's own record, by whose bells its threads are woken.
    SocketChannel(device::Device& device, const platform::JobSegment& own_job, base::WorldRank self,
                  base::WorldRank peer, platform::UniqueFd socket);
    // Says goodbye behind all that was published.
    ~SocketChannel() override;

    // The connection is lost, as when the peer's process dies; on both sides.
    void cut();

  private:
    void carry_on() override;

    // ---- the carrier
    void work();
    bool is_finished();
    void write_some();
    void read_some();

    std::mutex mutex_;
    const platform::UniqueFd socket_;
    const platform::UniqueFd bell_; // of the carrier
    bool leaves_ = false;           // under the mutex
    size_t packet_bytes_ = 0;       // the carrier's, as the next: an item that did not go yet
    std::vector<std::byte> packet_;
    bool ended_ = false;  // nothing more will come
    std::thread carrier_; // last: it uses all of it
};

} // namespace gpurun::test
