#include "axis.hpp"

#include <algorithm>
#include <cmath>

namespace gpurun::bench {

namespace {

constexpr int kMostMarks = 9;
constexpr double kSlack = 1e-9; // a value that rounding put beside its mark is on it

// Marks at powers of two, each `step` powers apart, the first at or below low and the last at or above high.
std::vector<double> powers_of_two(double low, double high) {
    const int first = static_cast<int>(std::floor(std::log2(low) + kSlack));
    const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log2(high) - kSlack)));
    const int step = (last - first) / kMostMarks + 1;
    std::vector<double> marks;
    for (int power = first; power < last + step; power += step)
        marks.push_back(std::ldexp(1.0, power));
    return marks;
}

// Marks at 1, 2, 5, 10, ...; where these are too many, at powers of ten; where these are too, at every other, ...
std::vector<double> decades(double low, double high) {
    const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
    const int last = static_cast<int>(std::ceil(std::log10(high) - kSlack));
    std::vector<double> marks;
    if (last - first <= 3) {
        for (int power = first; power <= last; ++power)
            for (int factor : {1, 2, 5})
                marks.push_back(factor * std::pow(10.0, power));
    } else {
        const int step = (last - first) / kMostMarks + 1;
        for (int power = first; power < last + step; power += step)
            marks.push_back(std::pow(10.0, power));
    }
    // Only the one mark below and the one above stay: an axis does not begin far from what it shows.
    while (marks.size() > 2 && marks[1] <= low * (1 + kSlack))
        marks.erase(marks.begin());
    while (marks.size() > 2 && marks[marks.size() - 2] >= high * (1 - kSlack))
        marks.pop_back();
    return marks;
}

std::vector<double> from_zero(double high) {
    const double rough = high > 0 ? high / 5 : 0.2;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (double factor : {5.0, 2.0, 1.0})
        if (factor * power >= rough * (1 - kSlack))
            step = factor * power;
    std::vector<double> marks;
    for (int i = 0; marks.size() < 2 || marks.back() < high * (1 - kSlack); ++i)
        marks.push_back(i * step);
    return marks;
}

} // namespace

Axis::Axis(Spacing spacing, double low, double high, double start, double end)
    : spacing_(spacing), low_(low), high_(high), start_(start), end_(end) {
    switch (spacing) {
    case Spacing::kLinear: marks_ = from_zero(high); break;
    case Spacing::kDecades: marks_ = decades(low, high); break;
    case Spacing::kBinary: marks_ = powers_of_two(low, high); break;
    }
    low_ = marks_.front();
    high_ = marks_.back();
}

double Axis::along(double value) const { return spacing_ == Spacing::kLinear ? value : std::log(value); }

double Axis::place(double value) const {
    const double share = (along(value) - along(low_)) / (along(high_) - along(low_));
    return start_ + share * (end_ - start_);
}

} // namespace gpurun::bench
