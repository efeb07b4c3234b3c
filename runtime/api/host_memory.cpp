#include "api/host_memory.hpp"

#include "base/format.hpp"
#include "platform/readable.hpp"

#include <cstdint>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

bool ask_system(const void* first, size_t bytes, Access access) {
    return access == Access::kWrite ? platform::writable(first, bytes) : platform::readable(first, bytes);
}

bool are_usable_pages(PageTable& usable, PageRange pages, Access access, uint64_t version) {
    while (pages.first <= pages.last && usable.has(pages.first, access, version))
        ++pages.first;
    if (pages.first > pages.last)
        return true;
    constexpr uintptr_t kPage = uintptr_t{1} << PageRange::kPageBits;
    static_assert(kPage == platform::kSmallestPage);
    if (!ask_system(reinterpret_cast<const void*>(pages.first * kPage), (pages.last - pages.first + 1) * kPage, access))
        return false;
    usable.keep(pages, access, version);
    return true;
}

bool is_usable(PageTable& usable, const void* buffer, size_t bytes, Access access, uint64_t version) {
    if (reinterpret_cast<uintptr_t>(buffer) > UINTPTR_MAX - (bytes - 1))
        return false;
    if (bytes <= kLookedAtOnce)
        return are_usable_pages(usable, {buffer, bytes}, access, version);
    const auto* const last = static_cast<const std::byte*>(buffer) + (bytes - 1);
    return platform::mapped(buffer, bytes) && are_usable_pages(usable, {buffer, 1}, access, version) &&
           are_usable_pages(usable, {last, 1}, access, version);
}

} // namespace

base::Error read_only(const void* buffer, size_t bytes) {
    return base::error(Status::kBuffer,
                       "the {} bytes at {} are mapped read-only: they can be sent, but not received into or written",
                       bytes, buffer);
}

Result<void> check_host_memory(HostPages& pages, const void* buffer, size_t bytes, Access access, uint64_t version) {
    if (is_usable(pages.usable(), buffer, bytes, access, version))
        return {};
    if (access == Access::kWrite && is_usable(pages.usable(), buffer, bytes, Access::kRead, version))
        return read_only(buffer, bytes);
    return base::error(Status::kBuffer,
                       "the {} bytes at {} are not memory of this process, or a part of them is not: they were freed, "
                       "or the pointer or the count is wrong",
                       bytes, buffer);
}

} // namespace gpurun::api
