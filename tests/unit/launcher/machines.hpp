// The machines that placement is tested on: ours, in tests/fixtures/topologies, and recorded ones, where they are.
#pragma once

#include "placement.hpp"
#include "platform/topology.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace gpurun::test {

inline std::vector<std::string> machine_files() {
    std::vector<std::string> files;
    for (const char* folder : {OWN_TOPOLOGIES, RECORDED_TOPOLOGIES}) {
        if (!std::filesystem::is_directory(folder)) {
            MESSAGE("skipped: there is no folder ", folder);
            continue;
        }
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            if (entry.path().extension() == ".xml")
                files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

inline launcher::Surroundings on_machine(const std::string& file) {
    static const char* const nothing[] = {nullptr};
    launcher::Surroundings there;
    there.machine = must(platform::read_machine(file));
    there.environment = nothing;
    for (const platform::PciGpu& gpu : there.machine.gpus) {
        // Records have UUIDs removed, or made equal.
        there.gpus.push_back({"GPU-" + gpu.bus_id, gpu.bus_id, gpu.name, ""});
    }
    there.absence = "none is recorded";
    return there;
}

} // namespace gpurun::test
