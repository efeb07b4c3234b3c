// gpurun's command line. Options end at the first word that is none: PROGRAM, whose own options are its own.
#pragma once

#include "base/status.hpp"
#include "ending_options.hpp"
#include "output_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

enum class DeviceKind { kAuto, kCuda, kEmulated };
enum class BindTo { kCore, kNone };
enum class MpsChoice { kAuto, kOn, kOff };

struct DeviceChoice {
    DeviceKind kind = DeviceKind::kAuto;
    std::optional<uint32_t> count; // of emulated devices
    bool given = false;            // asked for by --device, so its outcome is no news
};

struct Options {
    std::optional<uint32_t> ranks;
    DeviceChoice device;
    BindTo bind_to = BindTo::kCore;
    MpsChoice mps = MpsChoice::kAuto;
    bool oversubscribe = false;
    OutputOptions output;
    EndingOptions ending;
    std::vector<std::string> command; // PROGRAM and its arguments
};

struct ParsedOptions {
    Options options;
    std::string to_print; // not empty: print this and be done (--help, --version)
};

base::Result<ParsedOptions> parse_options(int argc, const char* const* argv);
// auto, cuda, emulated or emulated:COUNT
base::Result<DeviceChoice> parse_device(const std::string& text);

} // namespace gpurun::launcher
