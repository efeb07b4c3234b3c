// Pinned words in which kernels of graphs leave notes for the host: that a death has cut a message short, and that a
// message waits. Used under the engine lock, except for what the device writes.
#pragma once

#include "device/capability/channels.hpp"
#include "device/device.hpp"

#include <vector>

namespace gpurun::transfer {

class GraphNotes {
  public:
    GraphNotes(device::Device& device, size_t peers) : device_(device), peers_(peers) {}
    ~GraphNotes();

    // The word in which messages with the peer say that they were cut short.
    base::Result<device::Counter*> cut_mark(size_t peer);
    // Whether a message with the peer was cut short since the last call.
    bool take_cut(size_t peer);

    // Words in which one message says that it waits; all are 0.
    base::Result<device::ChannelWait*> take_wait();
    // REQUIRES: no graph has it any more.
    void give_back(device::ChannelWait* wait) { idle_.push_back(wait); }
    size_t lent() const { return blocks_.size() * kOfBlock - idle_.size(); } // waits that were not given back yet

  private:
    static constexpr size_t kOfBlock = 128;

    device::Device& device_;
    const size_t peers_;
    device::Counter* cut_marks_ = nullptr;
    std::vector<void*> blocks_;
    std::vector<device::ChannelWait*> idle_;
};

} // namespace gpurun::transfer
