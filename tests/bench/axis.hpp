// One axis of a plot: which values it spans, where they lie, and which of them are marked. Pure.
#pragma once

#include <vector>

namespace gpurun::bench {

enum class Spacing {
    kLinear,  // from 0
    kDecades, // logarithmic, marked at 1, 2 and 5 times powers of ten, or fewer
    kBinary,  // logarithmic, marked at powers of two: message sizes
};

class Axis {
  public:
    // Spans at least `low` to `high`; on logarithmic axes both are positive. `start` and `end` are places in the
    // drawing, in any direction.
    Axis(Spacing spacing, double low, double high, double start, double end);

    double place(double value) const;
    const std::vector<double>& marks() const { return marks_; }

  private:
    double along(double value) const; // in steps that are even on this axis

    Spacing spacing_;
    double low_;
    double high_;
    double start_;
    double end_;
    std::vector<double> marks_;
};

} // namespace gpurun::bench
