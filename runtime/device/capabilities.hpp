// The capabilities by name: for GPURUN_REPORT=paths, for errors, and for emulated devices, where they can be switched
// off.
#pragma once

#include "base/status.hpp"
#include "device/device.hpp"

#include <bitset>
#include <span>

namespace gpurun::device {

enum class Capability : uint8_t {
    kCounters,
    kFencedCopies,
    kMails,
    kGraphs,
    kChannels,
    kOrderedMemory,
    kOtherDevices,
    kClock,
    kReduce,
    kFusedReduce,
};
constexpr size_t kCapabilities = 10;
using CapabilitySet = std::bitset<kCapabilities>; // by Capability

struct CapabilityInfo {
    const char* name;    // as in GPURUN_EMULATED_CAPABILITIES
    const char* without; // what is done where a device lacks it
    bool (*is_in)(Device& device);
    CapabilitySet needs; // the others with which alone it comes
};
std::span<const CapabilityInfo, kCapabilities> capabilities(); // by Capability
inline const CapabilityInfo& info_of(Capability capability) { return capabilities()[static_cast<size_t>(capability)]; }

// Reads "all", "none", or a list of names such as "counters,mails". kSetting, naming the word, if it is none of them,
// or if one that it needs is not in the list.
base::Result<CapabilitySet> read_capabilities(std::string_view text);

} // namespace gpurun::device
