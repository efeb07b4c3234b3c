// The channel between two ranks of different nodes: a carried channel by the rank's FabricPort.
#pragma once

#include "transfer/channel/fabric_peer.hpp"
#include "transfer/channel/fabric_port.hpp"

namespace gpurun::transfer {

class FabricChannel final : public FabricPeer {
  public:
    // REQUIRES that the peer has published where it is reached.
    static base::Result<std::unique_ptr<FabricChannel>> open(std::shared_ptr<FabricPort> port, device::Device& device,
                                                             const platform::JobSegment& job, base::WorldRank self,
                                                             base::WorldRank peer, int first_device_peer = 0);
    ~FabricChannel() override;

    // As the job segment says; dead once its edges here are poisoned.
    Liveness liveness() const override;
    bool is_cut_off() const override { return CarriedChannel::liveness() == Liveness::kDead && !is_said_to_be_dead(); }
    bool is_held_back() const override;
    // The first channel of a port looks at the endpoint for all of them.
    bool has_records() const override {
        if (!CarriedChannel::has_records() && polls())
            port_->poll();
        return CarriedChannel::has_records();
    }

    // A call that waits for the peer's next record asks again and again.
    const Record* front(std::span<const std::byte>& ret_payload) override {
        if (!CarriedChannel::has_records())
            port_->poll();
        return CarriedChannel::front(ret_payload);
    }

    // Those that are here: has_records() has looked, and to look again would delay what is done with them.
    void poll(Sink sink) override {
        std::span<const std::byte> payload;
        while (const Record* const record = CarriedChannel::front(payload)) {
            sink(*record, payload);
            pop();
        }
    }

  private:
    FabricChannel(std::shared_ptr<FabricPort> port, const Site& site, Pages pages, const RankFacts& facts)
        : FabricPeer(site, std::move(pages), facts), port_(std::move(port)) {}

    bool is_said_to_be_dead() const;

    void carry_on() override { port_->flush(*this); }
    void carry_soon() override { port_->list(*this); }
    void on_watched() override { port_->look_soon(*this); }
    void on_landing_made(uint32_t window, OwnPages& pages) override { port_->offer(*this, window, pages.bytes()); }
    bool on_landing_told(uint32_t window, std::span<const std::byte> how) override {
        return port_->accept(*this, window, how);
    }

    const std::shared_ptr<FabricPort> port_;
};

} // namespace gpurun::transfer
