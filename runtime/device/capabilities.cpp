#include "device/capabilities.hpp"

#include "base/format.hpp"

#include <array>
#include <string_view>

namespace gpurun::device {

using base::Result;
using base::Status;

namespace {

constexpr CapabilitySet set_of(std::initializer_list<Capability> all) {
    unsigned long long bits = 0;
    for (const Capability each : all)
        bits |= 1ull << static_cast<unsigned>(each);
    return CapabilitySet(bits);
}
using enum Capability;

template <auto kGet>
bool is_in(Device& device) {
    return (device.*kGet)() != nullptr;
}

constexpr std::array<CapabilityInfo, kCapabilities> kTable = {{
    {"counters", "events order the streams of two ranks", is_in<&Device::counters>, {}},
    {"fenced-copies", "copy engines make all copies", is_in<&Device::fenced_copies>, set_of({kCounters})},
    {"mails", "small messages are staged", is_in<&Device::mails>, set_of({kCounters})},
    {"graphs", "no stream can be captured", is_in<&Device::graphs>, {}},
    {"channels", "no message can be captured", is_in<&Device::channels>, set_of({kCounters, kMails, kGraphs})},
    {"ordered-memory", "gpurun_malloc_async() is refused", is_in<&Device::ordered_memory>, {}},
    {"other-devices", "memory of another device is refused", is_in<&Device::other_devices>, {}},
    {"clock", "traces do not say when the device moved messages", is_in<&Device::clock>, {}},
    {"reduce", "the CPU reduces copies of device memory", is_in<&Device::reduce>, {}},
    {"fused-reduce", "small messages are copied before they are reduced", is_in<&Device::fused_reduce>,
     set_of({kCounters, kMails, kReduce})},
}};

std::string all_names() {
    std::string names;
    for (const CapabilityInfo& each : kTable)
        names += (names.empty() ? "" : ", ") + std::string(each.name);
    return names;
}

Result<size_t> find(std::string_view name) {
    for (size_t i = 0; i < kTable.size(); ++i)
        if (name == kTable[i].name)
            return i;
    return base::error(Status::kSetting, "there is no capability '{}': give all, none, or a list of {}", name,
                       all_names());
}

Result<void> check_needs(const CapabilitySet& given) {
    for (size_t i = 0; i < kTable.size(); ++i)
        for (size_t needed = 0; given[i] && needed < kTable.size(); ++needed)
            if (kTable[i].needs[needed] && !given[needed])
                return base::error(Status::kSetting, "{} need {}, too", kTable[i].name, kTable[needed].name);
    return {};
}

} // namespace

std::span<const CapabilityInfo, kCapabilities> capabilities() { return kTable; }

Result<CapabilitySet> read_capabilities(std::string_view text) {
    if (text == "all")
        return CapabilitySet().set();
    CapabilitySet given;
    if (text == "none")
        return given;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        GPURUN_ASSIGN(const size_t found, find(text.substr(begin, end - begin)));
        given.set(found);
        begin = end + 1;
    }
    GPURUN_TRY(check_needs(given));
    return given;
}

} // namespace gpurun::device
