#include "transfer/protocol/relay_part.hpp"

#include "base/log.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using platform::kRelayBuffers;

namespace {

struct SlabNotice {
    uint32_t window;
    bool is_there;
    device::MemoryHandle handle;
};

} // namespace

// Whether the last message that used the window is through.
Result<bool> RelayPart::is_free(uint32_t window) {
    const Window& of = windows_[window];
    if (!of.draining.empty())
        return false;
    if (of.drained == 0)
        return true;
    GPURUN_ASSIGN(Fence * fence, peer_.fence_in());
    const uint64_t last = of.drained - 1;
    const auto index = static_cast<uint16_t>(window * kRelayBuffers + last % kRelayBuffers);
    return fence->reached(Edge::kBackward,
                          Slot{SlotClass::kRelay, true, index, 0, (last / kRelayBuffers + 1) * kSlotStep});
}

Result<uint32_t> RelayPart::choose_window(const Streams& streams) {
    std::optional<uint32_t> found;
    for (uint32_t window = 0; window < windows_.size() && !found; ++window)
        if (windows_[window].drained + windows_[window].draining.size() != 0 && windows_[window].last == streams)
            found = window;
    for (uint32_t window = 0; window < windows_.size() && !found; ++window) {
        GPURUN_ASSIGN(const bool free, is_free(window));
        if (free)
            found = window;
    }
    if (!found) {
        const auto fewest = std::min_element(windows_.begin(), windows_.end(), [](const Window& a, const Window& b) {
            return a.draining.size() < b.draining.size();
        });
        found = static_cast<uint32_t>(fewest - windows_.begin());
    }
    windows_[*found].last = streams;
    return *found;
}

Result<std::byte*> RelayPart::slab(uint32_t window) {
    Window& of = windows_[window];
    if (of.slab != nullptr || of.has_none)
        return of.slab;
    device::Device& device = resources_.device;
    SlabNotice notice{window, false, {}};
    if (auto memory = device.allocate(kRelayBuffers * platform::kRelayBufferBytes)) {
        of.slab = static_cast<std::byte*>(*memory);
        GPURUN_ASSIGN(const device::Buffer buffer, device.describe(of.slab, 1));
        GPURUN_ASSIGN(notice.handle, device.export_memory(buffer));
        notice.is_there = true;
    } else {
        of.has_none = true;
        base::log(base::LogLevel::kWarn, "messages to rank {} that should bounce are staged: {}", peer_.rank().value,
                  memory.error().detail);
    }
    peer_.tell(Record(RecordKind::kNotice, kProtocol).with(notice));
    return of.slab;
}

Result<std::byte*> RelayPart::peer_slab(uint32_t window) {
    Window& of = windows_[window];
    if (of.peer_slab == nullptr && of.peer_handle) {
        GPURUN_ASSIGN(of.peer_slab, resources_.device.import_memory(peer_.channel().device_peer(), *of.peer_handle));
    }
    return static_cast<std::byte*>(of.peer_slab);
}

void RelayPart::on_notice(const Record& notice) {
    const auto slab = notice.as<SlabNotice>();
    if (slab.is_there)
        windows_[slab.window].peer_handle = slab.handle;
    else
        windows_[slab.window].peer_has_none = true;
}

bool RelayPart::needs_hand() const {
    return std::any_of(windows_.begin(), windows_.end(),
                       [](const Window& each) { return !each.filling.empty() || !each.draining.empty(); });
}

Result<void> RelayPart::let_go() {
    for (Window& each : windows_) {
        if (each.peer_slab != nullptr)
            GPURUN_TRY(resources_.device.close_memory(std::exchange(each.peer_slab, nullptr)));
        each.peer_handle.reset();
    }
    return {};
}

Result<void> RelayPart::close() {
    for (Window& each : windows_)
        if (each.slab != nullptr)
            GPURUN_TRY(resources_.device.free(std::exchange(each.slab, nullptr)));
    return {};
}

} // namespace gpurun::transfer
