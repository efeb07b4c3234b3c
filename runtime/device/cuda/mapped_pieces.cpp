#include "device/cuda/mapped_pieces.hpp"

#include "base/format.hpp"
#include "device/cuda/context.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace gpurun::device::cuda {

using base::Result;
using platform::UniqueFd;

namespace {

// No handle of CUDA's begins so.
constexpr std::array<uint64_t, 2> kMagic = {0x737065636569705f, 0x9d1f4b6e2ac85307};

struct Piece {
    uint64_t base = 0;
    uint64_t size = 0;
    uint64_t id = 0;
};

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

struct MappedPieces::HandleBytes {
    std::array<uint64_t, 2> magic = kMagic;
    platform::DescriptorAddress server;
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint64_t id = 0;
};

// ----------------------------------------------------------------------------------------------------- exporter

Result<MemoryHandle> MappedPieces::export_span(const Buffer& buffer) {
    static_assert(sizeof(HandleBytes) <= sizeof(MemoryHandle));
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) {
        GPURUN_ASSIGN(server_, platform::DescriptorServer::start([this](uint64_t address) { return offer(address); }));
    }
    const HandleBytes bytes{.server = server_->address(),
                            .base = reinterpret_cast<uint64_t>(buffer.base),
                            .bytes = buffer.size,
                            .id = buffer.id};
    MemoryHandle handle{};
    std::memcpy(handle.bytes.data(), &bytes, sizeof bytes);
    return handle;
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

bool MappedPieces::is_span(const MemoryHandle& handle) {
    return std::memcmp(handle.bytes.data(), kMagic.data(), sizeof kMagic) == 0;
}

Result<void*> MappedPieces::import_span(const MemoryHandle& handle) {
    HandleBytes wanted;
    std::memcpy(static_cast<void*>(&wanted), handle.bytes.data(), sizeof wanted);
    const ScopedContext current(driver_, context_);
    const BesideCapture beside(driver_);
    CUdeviceptr at = 0;
    GPURUN_TRY(driver_.check(driver_.cuMemAddressReserve(&at, wanted.bytes, 0, 0, 0), "cuMemAddressReserve"));
    size_t mapped = 0;
    auto all = map_all(wanted, at, mapped);
    if (all) {
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {device_}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        all = driver_.check(driver_.cuMemSetAccess(at, wanted.bytes, &access, 1), "cuMemSetAccess");
    }
    if (!all) {
        (void)unmap(at, mapped, wanted.bytes);
        return std::move(all).error();
    }
    auto* const imported = reinterpret_cast<void*>(at);
    const std::lock_guard lock(mutex_);
    imported_.emplace(imported, wanted.bytes);
    return imported;
}

Result<void> MappedPieces::map_all(const HandleBytes& wanted, CUdeviceptr at, size_t& ret_mapped) const {
    GPURUN_ASSIGN(auto exporter, platform::DescriptorClient::connect(wanted.server));
    SpanId id;
    while (ret_mapped < wanted.bytes) {
        GPURUN_ASSIGN(const size_t bytes,
                      map_next(exporter, wanted.base + ret_mapped, at + ret_mapped, wanted.bytes - ret_mapped, id));
        ret_mapped += bytes;
    }
    if (id.value() != wanted.id)
        return base::error(base::Status::kBuffer, "other memory has been mapped there since");
    return {};
}

// Returns how long the piece is.
Result<size_t> MappedPieces::map_next(platform::DescriptorClient& exporter, CUdeviceptr there, CUdeviceptr here,
                                      size_t room, SpanId& id) const {
    GPURUN_ASSIGN(const platform::OfferedDescriptor offered, exporter.ask(there));
    const Piece piece{offered.facts[0], offered.facts[1], offered.facts[2]};
    if (piece.base != there || piece.size == 0 || piece.size > room)
        return base::error(base::Status::kBuffer, "other memory has been mapped there since");
    id.add(piece.id);
    CUmemGenericAllocationHandle handle{};
    GPURUN_TRY(driver_.check(driver_.cuMemImportFromShareableHandle(
                                 &handle, reinterpret_cast<void*>(static_cast<intptr_t>(offered.fd.get())),
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                             "cuMemImportFromShareableHandle"));
    const Retained retained(driver_, handle);
    GPURUN_TRY(driver_.check(driver_.cuMemMap(here, piece.size, 0, handle, 0), "cuMemMap"));
    return piece.size;
}

Result<void> MappedPieces::unmap(CUdeviceptr at, size_t mapped, size_t bytes) const {
    auto unmapped = mapped != 0 ? driver_.check(driver_.cuMemUnmap(at, mapped), "cuMemUnmap") : Result<void>();
    GPURUN_TRY(driver_.check(driver_.cuMemAddressFree(at, bytes), "cuMemAddressFree"));
    return unmapped;
}

std::optional<Result<void>> MappedPieces::close(void* imported) {
    size_t bytes = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto found = imported_.find(imported);
        if (found == imported_.end())
            return std::nullopt;
        bytes = found->second;
        imported_.erase(found);
    }
    const ScopedContext current(driver_, context_);
    const BesideCapture beside(driver_);
    return unmap(reinterpret_cast<CUdeviceptr>(imported), bytes, bytes);
}

} // namespace gpurun::device::cuda
