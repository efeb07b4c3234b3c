#include "base/log.hpp"

#include <atomic>
#include <cstdio>

namespace gpurun::base {

namespace {
// Relaxed: written at init, read everywhere; a late reader prints a line more or less.
std::atomic<int> level_now{static_cast<int>(LogLevel::kOff)};
std::atomic<int> rank_now{-1};
} // namespace

void configure_log(LogLevel level, int rank) {
    level_now.store(static_cast<int>(level), std::memory_order_relaxed);
    rank_now.store(rank, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) { return static_cast<int>(level) <= level_now.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view text) {
    static constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
    const int rank = rank_now.load(std::memory_order_relaxed);
    const std::string line = rank < 0
                                 ? format("gpurun: {}: {}\n", kNames[static_cast<int>(level)], text)
                                 : format("gpurun: rank {}: {}: {}\n", rank, kNames[static_cast<int>(level)], text);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace gpurun::base
