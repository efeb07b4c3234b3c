#include "platform/job_name.hpp"

#include "base/format.hpp"
#include "platform/process_tree.hpp"

#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>

namespace gpurun::platform {

namespace {

constexpr std::string_view kVariable = "GPURUN_JOB=";
constexpr char kSeparator = '.';

bool names(std::string_view value, std::string_view name) {
    while (true) {
        const size_t end = value.find(kSeparator);
        if (value.substr(0, end) == name)
            return true;
        if (end == std::string_view::npos)
            return false;
        value.remove_prefix(end + 1);
    }
}

} // namespace

std::string new_job_name() {
    std::random_device random;
    return base::format("{:08x}{:08x}", random(), random());
}

std::string nested_job_name(const char* outer, const std::string& name) {
    return outer != nullptr && *outer != '\0' ? std::string(outer) + kSeparator + name : name;
}

std::vector<int> processes_of_job(const std::string& name) {
    std::vector<int> found;
    for (const int pid : all_processes()) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary); // "" once it has ended
        for (std::string entry; std::getline(file, entry, '\0');)
            if (entry.starts_with(kVariable) && names(std::string_view(entry).substr(kVariable.size()), name))
                found.push_back(pid);
    }
    return found;
}

} // namespace gpurun::platform
