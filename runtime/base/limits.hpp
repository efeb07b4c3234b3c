// The largest values of those settings that buffers are made for: each once, for the table of settings and for the
// buffers.
#pragma once

#include <cstddef>

namespace gpurun::base {

constexpr size_t kMostEagerBytes = 48 * 1024;            // GPURUN_EAGER_BYTES: an inline payload
constexpr size_t kMostDeviceEagerBytes = 32 * 1024;      // GPURUN_DEVICE_EAGER_BYTES: an eager buffer
constexpr size_t kMostMailBytes = 1024 * 1024;           // GPURUN_MAIL_BYTES: a mail's words, a staging buffer
constexpr size_t kMostRelayChunkBytes = size_t{8} << 20; // GPURUN_RELAY_CHUNK_BYTES: a relay buffer

} // namespace gpurun::base
