// The numbers by which a program and the runtime hold streams, events and graphs of emulated devices.
//
// A number is given once in the life of a process, so that a handle which was destroyed means nothing, for ever, and
// never another's stream or event. It is no address: whoever follows it gets a fault at once.
#pragma once

#include "device/types.hpp"

#include <atomic>
#include <cstdint>
#include <functional>

namespace gpurun::device::emulated {

// The upper 16 bits of a number, beyond those of any address: "es", "ee", "eg".
constexpr uint64_t kind_of(Stream) { return 0x6573; }
constexpr uint64_t kind_of(Event) { return 0x6565; }
constexpr uint64_t kind_of(Graph) { return 0x6567; }

// One that nothing has had before, on any device of the process.
template <typename Handle>
Handle new_handle() {
    static constinit std::atomic<uint64_t> given{0};
    const uint64_t number = kind_of(Handle()) << 48 | (given.fetch_add(1, std::memory_order_relaxed) + 1);
    return Handle(reinterpret_cast<decltype(Handle::native)>(number));
}

struct HashHandle {
    template <typename Handle>
    size_t operator()(Handle handle) const {
        return std::hash<const void*>()(handle.address());
    }
};

} // namespace gpurun::device::emulated
