// The bytes of the emulated device's handles, as they travel between processes.
#pragma once

#include "device/handle_bytes.hpp"

#include <cstdint>

namespace gpurun::device::emulated {

constexpr uint32_t kMemoryHandleMagic = 0x6d656d31; // "mem1"
constexpr uint32_t kEventHandleMagic = 0x65767431;  // "evt1"

struct MemoryHandleBytes {
    uint32_t magic;
    uint32_t slot;  // in the exporter's table of exports, which says whether the allocation still lives
    uint64_t token; // the exporter's segment
    uint64_t offset;
    uint64_t bytes;
    uint64_t id;
};
static_assert(sizeof(MemoryHandleBytes) == 40);

struct EventHandleBytes {
    uint32_t magic;
    uint32_t slot;
    uint64_t token;
};
static_assert(sizeof(EventHandleBytes) == 16);

} // namespace gpurun::device::emulated
