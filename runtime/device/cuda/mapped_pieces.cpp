#include "device/cuda/mapped_pieces.hpp"

#include "base/format.hpp"
#include "device/cuda/context.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gpurun::device::cuda {

using base::Result;
using platform::UniqueFd;

namespace {

constexpr DescriptorHandle::Magic kMagic = {0x737065636569705f, 0x9d1f4b6e2ac85307};

// Who must release a handle of an allocation.
class Retained {
  public:
    Retained(const Driver& driver, CUmemGenericAllocationHandle handle) : driver_(driver), handle_(handle) {}
    ~Retained() { (void)driver_.cuMemRelease(handle_); }
    Retained(const Retained&) = delete;
    Retained& operator=(const Retained&) = delete;

    CUmemGenericAllocationHandle get() const { return handle_; }

  private:
    const Driver& driver_;
    const CUmemGenericAllocationHandle handle_;
};

} // namespace

// ----------------------------------------------------------------------------------------------------- exporter

Result<MemoryHandle> MappedPieces::export_span(const Buffer& buffer) {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) {
        GPURUN_ASSIGN(server_, platform::DescriptorServer::start([this](uint64_t address) { return offer(address); }));
    }
    return pack<DescriptorHandle, MemoryHandle>({.magic = kMagic,
                                                 .server = server_->address(),
                                                 .base = reinterpret_cast<uint64_t>(buffer.base),
                                                 .bytes = buffer.size,
                                                 .id = buffer.id});
}

// The piece that has the address, by the server's thread. Other memory may be mapped there at any time: so it is asked
// what it is once it is held.
Result<platform::OfferedDescriptor> MappedPieces::offer(CUdeviceptr address) const {
    const ScopedContext current(driver_, context_);
    const BesideCapture beside(driver_);
    CUmemGenericAllocationHandle handle{};
    GPURUN_TRY(driver_.check(driver_.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)),
                             "cuMemRetainAllocationHandle"));
    const Retained retained(driver_, handle);
    Piece piece;
    std::array<CUpointer_attribute, 3> questions = {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                                    CU_POINTER_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    std::array<void*, 3> answers = {&piece.base, &piece.size, &piece.id};
    GPURUN_TRY(driver_.check(driver_.cuPointerGetAttributes(static_cast<unsigned>(questions.size()), questions.data(),
                                                            answers.data(), address),
                             "cuPointerGetAttributes"));
    int fd = -1;
    GPURUN_TRY(driver_.check(
        driver_.cuMemExportToShareableHandle(&fd, retained.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle"));
    return platform::OfferedDescriptor{UniqueFd(fd), {piece.base, piece.size, piece.id}};
}

// ----------------------------------------------------------------------------------------------------- importer

bool MappedPieces::is_span(const MemoryHandle& handle) { return DescriptorHandle::is_of(handle, kMagic); }

Result<void*> MappedPieces::import_span(int peer, const MemoryHandle& handle) {
    const auto wanted = unpack<DescriptorHandle>(handle);
    const ScopedContext current(driver_, context_);
    const BesideCapture beside(driver_);
    CUdeviceptr at = 0;
    GPURUN_TRY(driver_.check(driver_.cuMemAddressReserve(&at, wanted.bytes, 0, 0, 0), "cuMemAddressReserve"));
    Imported imported{.peer = peer};
    auto all = map_all(wanted, at, imported);
    if (all) {
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device_}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        all = driver_.check(driver_.cuMemSetAccess(at, wanted.bytes, &access, 1), "cuMemSetAccess");
    }
    if (!all) {
        const std::lock_guard lock(mutex_);
        given_up_.push_back({at, imported.bytes, wanted.bytes});
        return std::move(all).error();
    }
    const std::lock_guard lock(mutex_);
    for (auto& [other_at, other] : imported_)
        other.stale = other.stale || imported.replaces(other);
    imported_.emplace(reinterpret_cast<void*>(at), std::move(imported));
    return reinterpret_cast<void*>(at);
}

bool MappedPieces::Imported::replaces(const Imported& other) const {
    return peer == other.peer && std::any_of(pieces.begin(), pieces.end(), [&](const Piece& own) {
               return std::any_of(other.pieces.begin(), other.pieces.end(),
                                  [&](const Piece& its) { return own.replaces(its); });
           });
}

std::vector<void*> MappedPieces::take_stale(int peer) {
    std::vector<void*> stale;
    const std::lock_guard lock(mutex_);
    for (auto& [at, each] : imported_)
        if (each.peer == peer && each.stale && !std::exchange(each.told, true))
            stale.push_back(at);
    return stale;
}

Result<void> MappedPieces::map_all(const DescriptorHandle& wanted, CUdeviceptr at, Imported& imported) const {
    GPURUN_ASSIGN(auto exporter, platform::DescriptorClient::connect(wanted.server));
    SpanId id;
    while (imported.bytes < wanted.bytes) {
        GPURUN_ASSIGN(const Piece piece, map_next(exporter, wanted.base + imported.bytes, at + imported.bytes,
                                                  wanted.bytes - imported.bytes));
        imported.bytes += piece.size;
        imported.pieces.push_back(piece);
        id.add(piece.id);
    }
    if (id.value() != wanted.id)
        return base::error(base::Status::kBuffer, "other memory has been mapped there since");
    return {};
}

Result<MappedPieces::Piece> MappedPieces::map_next(platform::DescriptorClient& exporter, CUdeviceptr there,
                                                   CUdeviceptr here, size_t room) const {
    GPURUN_ASSIGN(const platform::OfferedDescriptor offered, exporter.ask(there));
    const Piece piece{offered.facts[0], offered.facts[1], offered.facts[2]};
    if (piece.base != there || piece.size == 0 || piece.size > room)
        return base::error(base::Status::kBuffer, "other memory has been mapped there since");
    CUmemGenericAllocationHandle handle{};
    GPURUN_TRY(driver_.check(driver_.cuMemImportFromShareableHandle(
                                 &handle, reinterpret_cast<void*>(static_cast<intptr_t>(offered.fd.get())),
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                             "cuMemImportFromShareableHandle"));
    const Retained retained(driver_, handle);
    GPURUN_TRY(driver_.check(driver_.cuMemMap(here, piece.size, 0, handle, 0), "cuMemMap"));
    return piece;
}

Result<void> MappedPieces::unmap(CUdeviceptr at, size_t mapped, size_t bytes) const {
    auto unmapped = mapped != 0 ? driver_.check(driver_.cuMemUnmap(at, mapped), "cuMemUnmap") : Result<void>();
    GPURUN_TRY(driver_.check(driver_.cuMemAddressFree(at, bytes), "cuMemAddressFree"));
    return unmapped;
}

std::optional<Result<void>> MappedPieces::close(void* imported) {
    std::vector<Range> leaving;
    size_t bytes = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto found = imported_.find(imported);
        if (found == imported_.end())
            return std::nullopt;
        bytes = found->second.bytes;
        imported_.erase(found);
        leaving.swap(given_up_);
    }
    const ScopedContext current(driver_, context_);
    const BesideCapture beside(driver_);
    for (const Range& each : leaving)
        (void)unmap(each.at, each.mapped, each.bytes);
    return unmap(reinterpret_cast<CUdeviceptr>(imported), bytes, bytes);
}

} // namespace gpurun::device::cuda
