// Other processes: which of their devices this one can reach, and shared memory and events (CUDA's legacy IPC).

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "device/cuda/selection.hpp"
#include "platform/unique_fd.hpp"

#include <cstring>

namespace gpurun::device::cuda {

static_assert(sizeof(CUipcMemHandle) == sizeof(MemoryHandle));
static_assert(sizeof(CUipcEventHandle) == sizeof(EventHandle));

base::Result<void> CudaDevice::add_peer(int peer, const Identity& identity, int fd) {
    platform::UniqueFd unused(fd);
    std::lock_guard lock(peers_mutex_);
    peers_[peer] = identity;
    return {};
}

void CudaDevice::forget_peer(int peer) {
    std::lock_guard lock(peers_mutex_);
    peers_.erase(peer);
}

base::Result<std::string> CudaDevice::peer_name(int peer) {
    std::lock_guard lock(peers_mutex_);
    const auto found = peers_.find(peer);
    if (found == peers_.end())
        return base::error(base::Status::kArgument, "peer {} is not known: it was never added", peer);
    return base::format("peer {} ({})", peer, format_uuid("GPU", found->second.uuid));
}

base::Result<void> CudaDevice::can_reach(const Identity& identity) {
    if (identity.kind != Kind::kCuda)
        return base::error(base::Status::kDevice, "the peer uses an emulated device, this rank {}", facts_.info.uuid);
    if (identity.uuid == facts_.info.identity.uuid)
        return {};
    if (facts_.mig)
        return base::error(base::Status::kDevice, "{} is a MIG instance, and these reach no other", facts_.info.uuid);
    GPURUN_ASSIGN(const auto other, find_device(driver_, identity.uuid));
    // CUDA_VISIBLE_DEVICES hides the peer's GPU here. IPC works all the same, and only trying it can tell.
    if (!other)
        return {};
    int reachable = 0;
    GPURUN_TRY(
        driver_.check(driver_.cuDeviceCanAccessPeer(&reachable, facts_.device, *other), "cuDeviceCanAccessPeer"));
    if (reachable == 0)
        return base::error(base::Status::kDevice,
                           "{} has no peer access to {} (nvidia-smi topo -p2p rw shows which have)", facts_.info.uuid,
                           format_uuid("GPU", identity.uuid));
    return {};
}

base::Result<MemoryHandle> CudaDevice::export_memory(const Buffer& buffer) {
    GPURUN_ASSERT(buffer.exportable);
    if (buffer.placement == Placement::kPinned)
        return host_memory_.export_memory(buffer.base);
    if (buffer.in_pieces)
        return pieces_.export_span(buffer);
    const auto current = enter_beside_capture();
    CUipcMemHandle handle{};
    GPURUN_TRY(driver_.check(driver_.cuIpcGetMemHandle(&handle, device_pointer(buffer.base)), "cuIpcGetMemHandle"));
    complete_copies_to(buffer.base);
    MemoryHandle out;
    std::memcpy(out.bytes.data(), &handle, sizeof(handle));
    return out;
}

// Without it a cudaMemcpy() of the user's may return before its bytes are where the peer will read them. Waits for
// those that have returned before.
void CudaDevice::complete_copies_to(const void* pointer) const {
    const auto current = enter_beside_capture();
    const unsigned on = 1;
    const CUresult result =
        driver_.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device_pointer(pointer));
    if (result != CUDA_SUCCESS)
        base::log(base::LogLevel::kWarn, "synchronous copies to {} may end late: {}", pointer,
                  driver_.error(result, "cuPointerSetAttribute").detail);
}

base::Result<void*> CudaDevice::import_memory(int peer, const MemoryHandle& handle) {
    GPURUN_ASSIGN(const std::string name, peer_name(peer));
    if (MappedPieces::is_span(handle) || SharedHostMemory::is_handle(handle)) {
        const auto pin = [&](void* memory, size_t bytes) { return register_host(memory, bytes); };
        auto imported =
            MappedPieces::is_span(handle) ? pieces_.import_span(peer, handle) : host_memory_.import_memory(handle, pin);
        if (imported)
            return imported;
        return base::error(imported.error().status, "cannot map memory of {}: {}", name, imported.error().detail);
    }
    CUipcMemHandle native_handle{};
    std::memcpy(&native_handle, handle.bytes.data(), sizeof(native_handle));
    const auto current = enter_beside_capture();
    CUdeviceptr pointer = 0;
    const CUresult result = driver_.cuIpcOpenMemHandle(&pointer, native_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result == CUDA_SUCCESS) [[likely]] {
        imported_memory_.insert(host_view(pointer));
        return host_view(pointer);
    }
    base::Error failed = driver_.error(result, "cuIpcOpenMemHandle");
    if (result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_MAP_FAILED)
        failed.detail = base::format("cannot map memory of {}: {} (it may have been freed there)", name, failed.detail);
    else if (result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || result == CUDA_ERROR_TOO_MANY_PEERS)
        failed.detail =
            base::format("cannot map memory of {}: {} (GPURUN_PATH=staged needs no mapping)", name, failed.detail);
    else
        failed.detail = base::format("cannot map memory of {}: {}", name, failed.detail);
    return failed;
}

base::Result<void> CudaDevice::close_memory(void* imported) {
    if (auto closed = host_memory_.close(imported, [&](void* memory) { return unregister_host(memory); }))
        return *std::move(closed);
    if (auto closed = pieces_.close(imported))
        return *std::move(closed);
    if (!imported_memory_.erase(imported))
        return base::error(base::Status::kBuffer, "{} is not the start of imported memory, or it was closed before",
                           imported);
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuIpcCloseMemHandle(device_pointer(imported)), "cuIpcCloseMemHandle");
}

base::Result<Event> CudaDevice::create_shared_event() {
    return make_event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

base::Result<EventHandle> CudaDevice::export_event(Event event) {
    const auto current = enter_beside_capture();
    CUipcEventHandle handle{};
    GPURUN_TRY(driver_.check(driver_.cuIpcGetEventHandle(&handle, native(event)), "cuIpcGetEventHandle",
                             base::Status::kEvent));
    EventHandle out;
    std::memcpy(out.bytes.data(), &handle, sizeof(handle));
    return out;
}

base::Result<Event> CudaDevice::import_event(int peer, const EventHandle& handle) {
    GPURUN_ASSIGN(const std::string name, peer_name(peer));
    CUipcEventHandle native_handle{};
    std::memcpy(&native_handle, handle.bytes.data(), sizeof(native_handle));
    const auto current = enter_beside_capture();
    CUevent event = nullptr;
    const CUresult result = driver_.cuIpcOpenEventHandle(&event, native_handle);
    if (result != CUDA_SUCCESS) {
        base::Error failed = driver_.error(result, "cuIpcOpenEventHandle");
        failed.detail = base::format("cannot open an event of {}: {}", name, failed.detail);
        return failed;
    }
    events_.insert(event);
    return Event{event};
}

} // namespace gpurun::device::cuda
