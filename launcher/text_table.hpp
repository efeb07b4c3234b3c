// Rows of words as a table for people.
#pragma once

#include <string>
#include <vector>

namespace gpurun::launcher {

// Each column as wide as its widest word, those of numbers to the right. Ends with a line end.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

} // namespace gpurun::launcher
