// A job as `gpurun jobs` tells it, in JSON: what whoever watches over the job sends, and what --json prints.
#pragma once

#include "base/status.hpp"
#include "job_listing.hpp"

#include <span>
#include <string>

namespace gpurun::launcher {

std::string job_as_json(const ListedJob& job);

// Of a text that another process has sent. kLauncher if it is no job. Nothing in it can disturb a terminal.
base::Result<ListedJob> job_from_json(const std::string& text);

// A job that could not be asked.
struct SilentJob {
    std::string name;
    std::string why; // a sentence
};

// An array of all of them, in one line with a line end.
std::string jobs_as_json(std::span<const ListedJob> jobs, std::span<const SilentJob> silent);

} // namespace gpurun::launcher
