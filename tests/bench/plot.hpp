// Line charts as one self-contained SVG: no script, no font, no file beside it; readable on white and on black. Pure.
#pragma once

#include "axis.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gpurun::bench {

struct Series {
    std::string label;
    int color = 0;       // a number; there are six
    bool dashed = false; // what is only there to compare with
    std::vector<std::pair<double, double>> points;
};

// x is bytes. What an axis cannot show (nothing, on a logarithmic one) is left out.
struct Panel {
    std::string title;
    std::string y_label;
    Spacing y_spacing = Spacing::kDecades;
    std::vector<Series> series;
    bool y_is_bandwidth = false; // in GB/s: each mark has the unit that suits it
};

// The panels stand below each other.
std::string draw(const std::string& title, const std::vector<std::string>& notes, const std::vector<Panel>& panels);

} // namespace gpurun::bench
