// An entry of a wait report in words. Pure functions.
#pragma once

#include "platform/wait_report.hpp"

#include <cstdint>
#include <string>

namespace gpurun::launcher {

// "-" where there is nothing to say.
struct EntryWords {
    std::string does;
    std::string peer;
    std::string tag;
    std::string communicator;
    std::string bytes;
    std::string path;
};
EntryWords words_of(const platform::wait_report::Entry& entry);

// What it waits for.
std::string cause(const platform::wait_report::Entry& entry, int64_t now_ns);
std::string describe_edge(const platform::wait_report::Entry& entry);
// "12.3 s"; "-" if `since_ns` is 0.
std::string format_time(int64_t since_ns, int64_t now_ns);

} // namespace gpurun::launcher
