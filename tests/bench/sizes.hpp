// Message sizes as people write them.
#pragma once

#include "refusal.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace gpurun::bench {

// A list with commas of sizes and ranges. LOW..HIGH is LOW, the powers of four between, and HIGH. The suffixes K, M and
// G are powers of 1024. The result has no size twice and keeps the order in which they were written.
Or<std::vector<size_t>> parse_sizes(const std::string& text);

// 8, 64K, 1.5M: for axes and labels, where a number in full has no room.
std::string short_size(double bytes);

} // namespace gpurun::bench
