#include "api/host_memory.hpp"

#include "base/format.hpp"
#include "platform/readable.hpp"

#include <array>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

constexpr uintptr_t kPage = platform::kSmallestPage;

// A page that this thread has found usable.
struct Seen {
    uintptr_t page = 0;
    uint64_t version = 0;
};

Seen& place_of(uintptr_t page, Access access) {
    static thread_local std::array<std::array<Seen, 256>, 2> seen{};
    // Fibonacci hashing to 2 to the 8: buffers whose pages lie a power of two apart are common.
    return seen[access == Access::kWrite ? 1 : 0][(page * 0x9e3779b97f4a7c15) >> 56];
}

bool is_known(uintptr_t page, Access access, uint64_t version) {
    const Seen& place = place_of(page, access);
    return place.page == page && place.version == version && page != 0;
}

bool ask_system(const void* first, size_t bytes, Access access) {
    return access == Access::kWrite ? platform::writable(first, bytes) : platform::readable(first, bytes);
}

bool is_usable_page(uintptr_t page, Access access, uint64_t version) {
    if (is_known(page, access, version))
        return true;
    if (!ask_system(reinterpret_cast<const void*>(page * kPage), 1, access))
        return false;
    place_of(page, access) = {page, version};
    return true;
}

bool are_usable_pages(uintptr_t first, uintptr_t last, Access access, uint64_t version) {
    uintptr_t page = first;
    while (page <= last && is_known(page, access, version))
        ++page;
    if (page > last)
        return true;
    if (!ask_system(reinterpret_cast<const void*>(page * kPage), (last - page + 1) * kPage, access))
        return false;
    for (; page <= last; ++page)
        place_of(page, access) = {page, version};
    return true;
}

bool is_usable(const void* buffer, size_t bytes, Access access, uint64_t version) {
    const auto first = reinterpret_cast<uintptr_t>(buffer);
    const uintptr_t last = first + (bytes - 1);
    if (last < first)
        return false;
    if (bytes <= kLookedAtOnce)
        return are_usable_pages(first / kPage, last / kPage, access, version);
    return platform::mapped(buffer, bytes) && is_usable_page(first / kPage, access, version) &&
           is_usable_page(last / kPage, access, version);
}

} // namespace

base::Error read_only(const void* buffer, size_t bytes) {
    return base::error(Status::kBuffer,
                       "the {} bytes at {} are mapped read-only: they can be sent, but not received into or written",
                       bytes, buffer);
}

Result<void> check_host_memory(const void* buffer, size_t bytes, Access access, uint64_t version) {
    if (is_usable(buffer, bytes, access, version))
        return {};
    if (access == Access::kWrite && is_usable(buffer, bytes, Access::kRead, version))
        return read_only(buffer, bytes);
    return base::error(Status::kBuffer,
                       "the {} bytes at {} are not memory of this process, or a part of them is not: they were freed, "
                       "or the pointer or the count is wrong",
                       bytes, buffer);
}

} // namespace gpurun::api
