#include "device/shared_host.hpp"

#include "base/format.hpp"
#include "device/handle_bytes.hpp"
#include "platform/system_error.hpp"

#include <utility>

namespace gpurun::device {

using base::Result;
using base::Status;
using platform::UniqueFd;

namespace {

constexpr DescriptorHandle::Magic kMagic = {0x64656e6e69705f5f, 0x3b7ac05d91e86f24};

} // namespace

SharedHostMemory::SharedHostMemory() : most_descriptors_(platform::most_descriptors() / 4) {}

SharedHostMemory::~SharedHostMemory() {
    server_.reset();
    for (auto& [base, entry] : allocations_)
        entry.mapping.release();
}

// ----------------------------------------------------------------------------------------------------- exporter

Result<SharedHostMemory::Allocation> SharedHostMemory::allocate(size_t bytes) {
    const size_t page = platform::page_size();
    if (bytes > PTRDIFF_MAX - page)
        return base::error(Status::kMemory, "the system has no {} bytes of host memory", bytes);
    const size_t whole = (bytes + page - 1) / page * page;
    auto fd = platform::create_segment("gpurun-pinned", whole);
    // Without a descriptor it is as good for all else.
    auto mapping = fd ? platform::Mapping::map(fd->get(), 0, whole) : platform::Mapping::map_own(whole);
    if (!mapping)
        return base::error(Status::kMemory, "the system has no {} bytes of host memory: {}", bytes,
                           mapping.error().detail);
    const std::lock_guard lock(mutex_);
    const Allocation made{mapping->data(), whole, fd && descriptors_ < most_descriptors_};
    descriptors_ += made.exportable ? 1 : 0;
    allocations_.emplace(made.pointer,
                         Entry{std::move(*mapping), made.exportable ? std::move(*fd) : UniqueFd(), ++last_number_});
    return made;
}

void SharedHostMemory::free(void* pointer) {
    Entry freed; // in front of the lock, and so unmapped behind it
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(pointer);
    if (found == allocations_.end())
        return;
    freed = std::move(found->second);
    descriptors_ -= freed.fd ? 1 : 0;
    allocations_.erase(found);
}

Result<MemoryHandle> SharedHostMemory::export_memory(const void* base) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(base);
    if (found == allocations_.end() || !found->second.fd)
        return base::error(Status::kBuffer, "{} is not pinned memory that can be exported, or was freed", base);
    if (server_ == nullptr) {
        GPURUN_ASSIGN(server_, platform::DescriptorServer::start([this](uint64_t asked) { return offer(asked); }));
    }
    return pack<DescriptorHandle, MemoryHandle>({.magic = kMagic,
                                                 .server = server_->address(),
                                                 .base = reinterpret_cast<uint64_t>(base),
                                                 .bytes = found->second.mapping.size(),
                                                 .id = found->second.number});
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

bool SharedHostMemory::is_handle(const MemoryHandle& handle) { return DescriptorHandle::is_of(handle, kMagic); }

Result<void*> SharedHostMemory::import_memory(const MemoryHandle& handle, Register register_it) {
    const auto wanted = unpack<DescriptorHandle>(handle);
    GPURUN_ASSIGN(auto exporter, platform::DescriptorClient::connect(wanted.server));
    GPURUN_ASSIGN(const platform::OfferedDescriptor offered, exporter.ask(wanted.base));
    if (offered.facts[0] != wanted.id)
        return base::error(Status::kBuffer, "it has been freed, and its address has other memory");
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map(offered.fd.get(), 0, wanted.bytes));
    void* const imported = mapping.data();
    GPURUN_TRY(register_it(imported, wanted.bytes));
    const std::lock_guard lock(mutex_);
    imports_.emplace(imported, std::move(mapping));
    return imported;
}

std::optional<Result<void>> SharedHostMemory::close(void* imported, Unregister unregister) {
    platform::Mapping mapping;
    {
        const std::lock_guard lock(mutex_);
        const auto found = imports_.find(imported);
        if (found == imports_.end())
            return std::nullopt;
        mapping = std::move(found->second);
        imports_.erase(found);
    }
    auto unregistered = unregister(imported);
    if (!unregistered)
        mapping.release();
    return unregistered;
}

} // namespace gpurun::device
