#include "device/emulated/peers.hpp"

#include "base/format.hpp"
#include "device/emulated/handles.hpp"

#include <algorithm>
#include <mutex>

namespace gpurun::device::emulated {

using base::Status;

base::Result<void> Peers::add(int peer, platform::UniqueFd fd, std::string unreachable) {
    GPURUN_ASSIGN(Control control, Control::attach(fd.get()));
    if (control.token() == own_token_)
        return base::error(Status::kArgument, "peer {}'s descriptor is this process's own", peer);
    const std::unique_lock lock(mutex_);
    auto entry = std::make_unique<const Peer>(Peer{std::move(fd), std::move(control), std::move(unreachable)});
    if (!peers_.emplace(peer, std::move(entry)).second)
        return base::error(Status::kArgument, "peer {} was added before", peer);
    return {};
}

void Peers::release(int peer) {
    const std::shared_lock lock(mutex_);
    if (const auto found = peers_.find(peer); found != peers_.end())
        found->second->control.release_all();
}

void Peers::forget(int peer) {
    const std::unique_lock lock(mutex_);
    GPURUN_ASSERT(
        std::none_of(imports_.begin(), imports_.end(), [&](const auto& each) { return each.second.peer == peer; }));
    peers_.erase(peer);
}

base::Result<const Peers::Peer*> Peers::find(int peer) const {
    const auto found = peers_.find(peer);
    if (found == peers_.end())
        return base::error(Status::kArgument, "peer {} is not known: it was never added, or has no device memory",
                           peer);
    return found->second.get();
}

base::Result<void*> Peers::import_memory(int peer, const MemoryHandle& handle) {
    const auto bytes = unpack<MemoryHandleBytes>(handle);
    const std::unique_lock lock(mutex_);
    GPURUN_ASSIGN(const Peer* const from, find(peer));
    if (bytes.magic != kMemoryHandleMagic || bytes.token != from->control.token())
        return base::error(Status::kBuffer, "this is not a memory handle of peer {}", peer);
    GPURUN_ASSIGN(const size_t segment, platform::segment_size(from->fd.get()));
    const size_t page = platform::page_size();
    if (bytes.offset < Control::bytes() || bytes.offset > segment || bytes.bytes > segment - bytes.offset ||
        bytes.bytes == 0 || bytes.offset % page != 0 || bytes.bytes % page != 0)
        return base::error(Status::kBuffer, "a memory handle of peer {} is damaged", peer);
    const std::atomic<uint64_t>* live = from->control.exported(bytes.slot);
    // Acquire: pairs with the exporter's release when it exports and when it frees.
    if (live == nullptr || live->load(std::memory_order_acquire) != bytes.id)
        return base::error(Status::kBuffer, "peer {} has freed the memory that this handle names", peer);
    const auto behind = open_parts_.lower_bound({peer, bytes.offset + bytes.bytes});
    if (behind != open_parts_.begin() && std::prev(behind)->first.first == peer &&
        std::prev(behind)->second > bytes.offset)
        return base::error(Status::kBuffer,
                           "a mapping of this part of peer {}'s memory is open: close it before opening another", peer);
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(from->fd.get(), bytes.offset, bytes.bytes));
    std::byte* base = mapping.data();
    imports_.emplace(reinterpret_cast<uintptr_t>(base), Import{std::move(mapping), peer, bytes.offset});
    open_parts_.emplace(std::pair(peer, bytes.offset), bytes.offset + bytes.bytes);
    return static_cast<void*>(base);
}

base::Result<void> Peers::close_memory(void* imported) {
    platform::Mapping dropped; // unmapped after the lock is released
    const std::unique_lock lock(mutex_);
    const auto found = imports_.find(reinterpret_cast<uintptr_t>(imported));
    if (found == imports_.end())
        return base::error(Status::kBuffer, "{} is not the start of imported memory, or was closed before", imported);
    dropped = std::move(found->second.mapping);
    open_parts_.erase({found->second.peer, found->second.offset});
    imports_.erase(found);
    return {};
}

base::Result<bool> Peers::check_import(const void* pointer, size_t bytes) const {
    const std::shared_lock lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto next = imports_.upper_bound(address);
    if (next == imports_.begin())
        return false;
    const auto& [first, open] = *--next;
    const size_t skipped = address - first;
    if (skipped >= open.mapping.size())
        return false;
    if (bytes > open.mapping.size() - skipped)
        return base::error(Status::kBuffer, "{} bytes at {} reach past the end of imported memory", bytes, pointer);
    const Peer& from = *peers_.find(open.peer)->second;
    if (!from.unreachable.empty())
        return base::error(Status::kDevice, "cannot copy from or to peer {}'s memory: {}", open.peer, from.unreachable);
    return true;
}

base::Result<const Control*> Peers::control(int peer, uint64_t token) const {
    const std::shared_lock lock(mutex_);
    GPURUN_ASSIGN(const Peer* const from, find(peer));
    if (from->control.token() != token)
        return base::error(Status::kEvent, "this is not an event handle of peer {}", peer);
    return &from->control;
}

} // namespace gpurun::device::emulated
