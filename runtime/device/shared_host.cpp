#include "device/shared_host.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace gpurun::device {

using base::Result;
using base::Status;
using platform::UniqueFd;

namespace {

// No handle of another kind begins so.
constexpr std::array<uint64_t, 2> kMagic = {0x64656e6e69705f5f, 0x3b7ac05d91e86f24};

} // namespace

struct SharedHostMemory::HandleBytes {
    std::array<uint64_t, 2> magic = kMagic;
    platform::DescriptorAddress server;
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint64_t number = 0;
};

SharedHostMemory::SharedHostMemory() : most_descriptors_(platform::most_descriptors() / 4) {}

SharedHostMemory::~SharedHostMemory() {
    server_.reset();
    for (auto& [base, entry] : allocations_)
        entry.mapping.release();
}

// ----------------------------------------------------------------------------------------------------- exporter

Result<SharedHostMemory::Range> SharedHostMemory::allocate(size_t bytes) {
    const size_t page = platform::page_size();
    if (bytes > SIZE_MAX / 2)
        return base::error(Status::kMemory, "cannot allocate {} bytes of pinned memory", bytes);
    const size_t whole = (bytes + page - 1) / page * page;
    GPURUN_ASSIGN(UniqueFd fd, platform::create_segment("gpurun-pinned", whole));
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(fd.get(), 0, whole));
    const std::lock_guard lock(mutex_);
    const Range made{mapping.data(), whole};
    if (descriptors_ < most_descriptors_)
        ++descriptors_;
    else
        fd.reset();
    allocations_.emplace(made.pointer, Entry{std::move(mapping), std::move(fd), ++last_number_});
    return made;
}

void SharedHostMemory::free(void* pointer) {
    Entry freed; // unmapped after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(pointer);
    if (found == allocations_.end())
        return;
    freed = std::move(found->second);
    descriptors_ -= freed.fd ? 1 : 0;
    allocations_.erase(found);
}

bool SharedHostMemory::is_exportable(const void* base) const {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(base);
    return found != allocations_.end() && found->second.fd;
}

Result<MemoryHandle> SharedHostMemory::export_memory(const void* base) {
    static_assert(sizeof(HandleBytes) <= sizeof(MemoryHandle));
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(base);
    if (found == allocations_.end() || !found->second.fd)
        return base::error(Status::kBuffer, "{} is not pinned memory that can be exported, or was freed", base);
    if (server_ == nullptr) {
        GPURUN_ASSIGN(server_, platform::DescriptorServer::start([this](uint64_t asked) { return offer(asked); }));
    }
    const HandleBytes bytes{.server = server_->address(),
                            .base = reinterpret_cast<uint64_t>(base),
                            .bytes = found->second.mapping.size(),
                            .number = found->second.number};
    MemoryHandle handle{};
    std::memcpy(handle.bytes.data(), &bytes, sizeof bytes);
    return handle;
}

// By the server's thread.
Result<platform::OfferedDescriptor> SharedHostMemory::offer(uint64_t base) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(reinterpret_cast<const void*>(base));
    if (found == allocations_.end() || !found->second.fd)
        return base::error(Status::kBuffer, "it has been freed");
    UniqueFd own = found->second.fd.duplicate(); // that one may be closed before this is sent
    if (!own)
        return platform::system_error("duplicating a descriptor of pinned memory");
    return platform::OfferedDescriptor{std::move(own), {found->second.number}};
}

// ----------------------------------------------------------------------------------------------------- importer

bool SharedHostMemory::is_handle(const MemoryHandle& handle) {
    return std::memcmp(handle.bytes.data(), kMagic.data(), sizeof kMagic) == 0;
}

Result<SharedHostMemory::Range> SharedHostMemory::import_memory(const MemoryHandle& handle) {
    HandleBytes wanted;
    std::memcpy(static_cast<void*>(&wanted), handle.bytes.data(), sizeof wanted);
    GPURUN_ASSIGN(auto exporter, platform::DescriptorClient::connect(wanted.server));
    GPURUN_ASSIGN(const platform::OfferedDescriptor offered, exporter.ask(wanted.base));
    if (offered.facts[0] != wanted.number)
        return base::error(Status::kBuffer, "it has been freed, and its address has other memory");
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(offered.fd.get(), 0, wanted.bytes));
    const Range range{mapping.data(), wanted.bytes};
    const std::lock_guard lock(mutex_);
    imports_.emplace(range.pointer, std::move(mapping));
    return range;
}

platform::Mapping SharedHostMemory::take_import(void* imported) {
    const std::lock_guard lock(mutex_);
    const auto found = imports_.find(imported);
    return found != imports_.end() ? std::move(imports_.extract(found).mapped()) : platform::Mapping();
}

} // namespace gpurun::device
