// The bytes of handles (device/types.hpp), as they travel between processes.
#pragma once

#include "device/types.hpp"
#include "platform/descriptor_server.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gpurun::device {

template <typename Bytes, typename Handle>
Handle pack(const Bytes& bytes) {
    static_assert(std::is_trivially_copyable_v<Bytes> && sizeof(Bytes) <= sizeof(Handle));
    Handle handle{};
    std::memcpy(handle.bytes.data(), &bytes, sizeof bytes);
    return handle;
}

template <typename Bytes, typename Handle>
Bytes unpack(const Handle& handle) {
    static_assert(std::is_trivially_copyable_v<Bytes> && sizeof(Bytes) <= sizeof(Handle));
    Bytes bytes{};
    std::memcpy(static_cast<void*>(&bytes), handle.bytes.data(), sizeof bytes);
    return bytes;
}

// Of memory for which the exporter's process gives descriptors.
struct DescriptorHandle {
    using Magic = std::array<uint64_t, 2>; // which says what memory it is; no handle of CUDA's begins so

    Magic magic{};
    platform::DescriptorAddress server;
    uint64_t base = 0; // in the exporter
    uint64_t bytes = 0;
    uint64_t id = 0; // which other memory at the same address has not

    static bool is_of(const MemoryHandle& handle, const Magic& magic) {
        return std::memcmp(handle.bytes.data(), magic.data(), sizeof magic) == 0;
    }
};

} // namespace gpurun::device
