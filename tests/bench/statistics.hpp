// What is said about many samples of one time.
#pragma once

#include <vector>

namespace gpurun::bench {

// Of samples in any order; 0 if there are none.
double smallest(const std::vector<double>& samples);
// The middle one, or the mean of the two in the middle.
double median(std::vector<double> samples);
// The sample that `share` (0 to 1) of all do not exceed: one that was taken, none between two.
double percentile(std::vector<double> samples, double share);

} // namespace gpurun::bench
