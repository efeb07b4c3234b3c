#include "platform/job_name.hpp"

#include "base/format.hpp"
#include "platform/process_state.hpp"
#include "platform/process_tree.hpp"
#include "platform/supervisors.hpp"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

namespace gpurun::platform {

namespace {

constexpr std::string_view kVariable = "GPURUN_JOB=";
constexpr char kSeparator = '.';
constexpr size_t kDigits = 16; // hexadecimal, of each name

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

// Of a process whose environment says nothing.
bool may_be_ours(int pid, const std::string& environment) {
    constexpr int kParentOfKernelThreads = 2;
    if (::access(environment.c_str(), R_OK) != 0 && errno == EACCES)
        return false; // somebody else's
    const auto stat = process_stat(pid);
    return !stat || (pid != kParentOfKernelThreads && stat->parent != kParentOfKernelThreads);
}

} // namespace

std::string new_job_name() {
    std::random_device random;
    return base::format("{:08x}{:08x}", random(), random()); // kDigits
}

bool is_job_name(std::string_view text) {
    return text.size() >= kDigits && text.find_first_not_of("0123456789abcdef.") == std::string_view::npos;
}

std::string nested_job_name(const char* outer, const std::string& name) {
    return outer != nullptr && *outer != '\0' ? std::string(outer) + kSeparator + name : name;
}

ProcessesOfJob processes_of_job(const std::string& name) {
    ProcessesOfJob found;
    for (const int pid : all_processes()) {
        if (is_supervisor(pid))
            continue;
        const std::string path = "/proc/" + std::to_string(pid) + "/environ";
        std::ifstream file(path, std::ios::binary);
        bool any = false;
        for (std::string entry; std::getline(file, entry, '\0'); any = true)
            if (entry.starts_with(kVariable) && names(std::string_view(entry).substr(kVariable.size()), name))
                found.pids.push_back(pid);
        found.uncertain |= !any && may_be_ours(pid, path);
    }
    return found;
}

} // namespace gpurun::platform
