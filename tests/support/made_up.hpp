// Handles that nobody has made: of a number, or of an address that is no stream or event.
#pragma once

#include "device/device.hpp"

#include <cstdint>

namespace gpurun::test {

template <typename Handle>
Handle made_up(uintptr_t number) {
    return Handle(reinterpret_cast<decltype(Handle::native)>(number));
}

template <typename Handle>
Handle made_up(const void* address) {
    return made_up<Handle>(reinterpret_cast<uintptr_t>(address));
}

} // namespace gpurun::test
