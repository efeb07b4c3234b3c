#include "text_table.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace {

// Or the dash that stands for none.
bool is_number(const std::string& word) {
    return word == "-" || word.find_first_not_of("0123456789") == std::string::npos;
}

} // namespace

void drop_empty_columns(std::vector<std::vector<std::string>>& rows) {
    for (size_t column = rows.empty() ? 0 : rows[0].size(); column-- > 0;) {
        const auto is_empty = [&](const auto& row) { return row[column] == "-" || row[column].empty(); };
        if (!std::all_of(rows.begin() + 1, rows.end(), is_empty))
            continue;
        for (auto& row : rows)
            row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    }
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    std::vector<bool> numbers;
    for (size_t row = 0; row < rows.size(); ++row) {
        widths.resize(std::max(widths.size(), rows[row].size()));
        numbers.resize(widths.size(), true);
        for (size_t i = 0; i < rows[row].size(); ++i) {
            widths[i] = std::max(widths[i], rows[row][i].size());
            numbers[i] = numbers[i] && (row == 0 || is_number(rows[row][i])); // the first row names the columns
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i)
            line += (i == 0 ? "" : "  ") + (numbers[i] ? base::format("{:>{}}", row[i], widths[i])
                                                       : base::format("{:<{}}", row[i], widths[i]));
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

} // namespace gpurun::launcher
