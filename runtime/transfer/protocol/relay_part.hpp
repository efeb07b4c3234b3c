// What the relay keeps for one peer: the windows of each direction, the messages that use them, and the memory of
// windows on a device.
//
// A message whose stream is held up keeps its window busy. So messages share a window only if they are in the same two
// streams, where one is behind the other anyway. The target chooses, since it knows both streams. A window whose last
// message is through is free for any message. If more than kRelayWindows pairs of streams are held up at the same time,
// messages share windows all the same, and wait for each other.
#pragma once

#include "transfer/state.hpp"

namespace gpurun::transfer {

class RelayPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 8;

    RelayPart(Resources& resources, Peer& peer) : resources_(resources), peer_(peer) {}

    // The streams of the two sides of a message, by name; 0: the host's order.
    struct Streams {
        uint64_t source = 0;
        uint64_t target = 0;
        bool operator==(const Streams&) const = default;
    };
    // As target: the window of a message between these.
    base::Result<uint32_t> choose_window(const Streams& streams);

    // In each direction, the messages of a window, in the order of their clear-to-send; the first one moves.
    base::List<Send, Queued>& filling(uint32_t window) { return windows_[window].filling; }
    base::List<Receive, Queued>& draining(uint32_t window) { return windows_[window].draining; }
    // Chunks that this side has enqueued.
    uint64_t chunks(uint32_t window, Direction direction) const {
        return direction == Direction::kOut ? windows_[window].filled : windows_[window].drained;
    }
    void set_chunks(uint32_t window, Direction direction, uint64_t chunks) {
        (direction == Direction::kOut ? windows_[window].filled : windows_[window].drained) = chunks;
    }
    // This rank's device memory for the window, made at first use, and the peer's. Null: the device had no more, and
    // the window's buffers in host memory are used.
    base::Result<std::byte*> slab(uint32_t window);
    bool knows_peer_slab(uint32_t window) const {
        return windows_[window].peer_handle.has_value() || windows_[window].peer_has_none;
    }
    base::Result<std::byte*> peer_slab(uint32_t window);

    void on_notice(const Record& notice) override; // where the peer's device memory is
    bool needs_hand() const override;
    base::Result<void> let_go() override; // unmaps the peer's
    base::Result<void> close() override;  // frees this rank's

  private:
    struct Window {
        base::List<Send, Queued> filling;
        base::List<Receive, Queued> draining;
        uint64_t filled = 0;
        uint64_t drained = 0;
        Streams last; // that a message was granted it for
        std::byte* slab = nullptr;
        bool has_none = false; // nor will have
        std::optional<device::MemoryHandle> peer_handle;
        bool peer_has_none = false;
        void* peer_slab = nullptr;
    };
    base::Result<bool> is_free(uint32_t window);

    Resources& resources_;
    Peer& peer_;
    std::array<Window, kRelayWindows> windows_;
};

} // namespace gpurun::transfer
