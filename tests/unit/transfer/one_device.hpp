// An emulated device for tests of what a rank keeps on its own.
#pragma once

#include "device/open.hpp"
#include "support/unit.hpp"

#include <memory>

namespace gpurun::test {

inline std::unique_ptr<device::Device> open_one_device() {
    device::Options options;
    options.selector = "emulated:0/1";
    options.emulated_memory_bytes = size_t{1} << 20;
    return must(device::open_device(options));
}

} // namespace gpurun::test
