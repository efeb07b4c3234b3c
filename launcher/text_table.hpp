// Rows of words as a table for people.
#pragma once

#include <string>
#include <vector>

namespace gpurun::launcher {

// What a cell says where there is nothing to say.
inline std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// Those in which no row but the first says anything.
void drop_empty_columns(std::vector<std::vector<std::string>>& rows);

// Each column as wide as its widest word, those of numbers to the right. Ends with a line end.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

} // namespace gpurun::launcher
