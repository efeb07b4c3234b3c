// What gpurun says of a rank that failed. Pure functions.
#pragma once

#include "devices.hpp"
#include "output_options.hpp"

#include <cstdint>
#include <string>

namespace gpurun::launcher {

// For people: "GPU 0000:41:00.0", "MIG-1234 of GPU 0000:41:00.0", "emulated device 3".
std::string describe_device(const Device& device);

struct FailedRank {
    uint32_t rank = 0;
    int pid = -1;
    std::string device;     // as describe_device() tells it
    std::string what;       // "exited with status 3"
    std::string last_words; // the last line of its standard error, or ""
};

// What a rank printed last, or "" where that is a line of libgpurun's own that gpurun has passed on to people already.
std::string worth_repeating(uint32_t rank, const std::string& last_words, const OutputOptions& output);

enum class Others { kNone, kEnded, kGoOn };

// In one line, without gpurun's name before it.
std::string summarize(const FailedRank& failed, Others others);

} // namespace gpurun::launcher
