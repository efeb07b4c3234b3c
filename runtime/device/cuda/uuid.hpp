// GPU names as nvidia-smi -L prints them: GPU-01234567-89ab-cdef-0123-456789abcdef.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpurun::device::cuda {

using Uuid = std::array<uint8_t, 16>;

// `prefix` is GPU, or MIG for a part of one.
std::string format_uuid(std::string_view prefix, const Uuid& uuid);
// With prefix GPU- or MIG-; upper and lower case alike.
std::optional<Uuid> parse_uuid(std::string_view text);

} // namespace gpurun::device::cuda
