// An emulated device for a unit test.
#pragma once

#include "device/open.hpp"
#include "support/unit.hpp"

#include <memory>
#include <string>

namespace gpurun::test {

inline device::Options emulated_options(std::string selector = "emulated:0/1") {
    device::Options options;
    options.selector = std::move(selector);
    options.emulated_memory_bytes = size_t{64} << 20;
    return options;
}

inline std::unique_ptr<device::Device> open_emulated(const device::Options& options = emulated_options()) {
    return must(device::open_device(options));
}

} // namespace gpurun::test
