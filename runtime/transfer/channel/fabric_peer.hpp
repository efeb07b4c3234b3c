// What a FabricPort keeps for a rank of another node: the channel to it, and how far its frames are.
#pragma once

#include "platform/fabric/endpoint.hpp"
#include "platform/fabric/network_address.hpp"
#include "transfer/channel/carried_channel.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::transfer {

class FabricPeer : public CarriedChannel {
  protected:
    using CarriedChannel::CarriedChannel;
    bool polls() const { return polls_; }
    // REQUIRES mutex().
    bool has_frame_left() const { return !unsent_.empty() || unsent_bytes_ || silent_since_ns_ != 0; }

  private:
    friend class FabricPort;
    // It has something to carry, or may have soon.
    bool is_busy() const { return is_unsent() || is_watching() || silent_since_ns_ != 0; }
    bool is_unsent() const { return !unsent_.empty() || unsent_bytes_ || has_items(); }
    // Something was sent there, or is to be, or has come from there.
    bool has_met() const { return sent_ != 0 || got_ != 0 || is_unsent(); }
    // Of a window in which bytes are written and not sent.
    struct Window {
        std::optional<platform::FabricEndpoint::Landing> landing; // the peer's
        std::optional<platform::FabricEndpoint::Entered> own;
    };
    // No frame goes to it any more, and none is taken from it.
    void give_up() {
        silent_since_ns_ = 0;
        unsent_.clear();
        unsent_bytes_.reset();
        lose();
    }

    // Under the port's mutex.
    bool polls_ = false;     // since the channel is open
    bool is_listed_ = false; // among the busy ones
    std::optional<platform::NetworkAddress> address_;
    uint64_t number_ = 0;                     // of the peer, for the endpoint
    uint64_t key_ = 0;                        // the peer's
    uint64_t sent_ = 0;                       // frames
    int64_t sent_at_ns_ = 0;                  // the last one
    int64_t send_took_ns_ = 0;                // the same
    uint64_t got_ = 0;                        // frames
    std::vector<std::byte> unsent_;           // a frame that did not go yet
    std::optional<FilledBytes> unsent_bytes_; // that it goes with
    int64_t unheard_since_ns_ = 0;            // what was sent then, or is to be, has no answer; 0: nothing
    int64_t silent_since_ns_ = 0;             // a frame failed: 0, none
    std::string silent_why_;
    bool said_goodbye_ = false;
    std::array<Window, kRelayWindows + 1> windows_;
};

} // namespace gpurun::transfer
