// From samples to what is printed. Pure.
#pragma once

#include "plan.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace gpurun::bench {

// Microseconds, what of depending on the test:
//
//   latency                        one way
//   bandwidth, bidirectional, rate a window with its answer
//   exchange                       all messages of it, the calls that start and complete them
//   collective                     one in the slowest rank, the call of one in the slowest rank
//   overlap                        the transfer alone, the computation alone, both
//   call                           a send, a receive
using Samples = std::array<std::vector<double>, 3>;

struct Metric {
    const char* key;     // in JSON; ends in its unit
    const char* heading; // in tables
    double scale;        // from the key's unit to the heading's, and to that of plots
    int digits;          // behind the point, in tables; kWithUnit: each value has its unit
};

inline constexpr int kWithUnit = -1;

// As tables print it. Bytes per second have their unit, so that small messages are not all 0.000 GB/s; without bytes
// there are none.
std::string printed(const Metric& metric, double figure);

// What is said about a test, and which of it is held against the references and plotted.
std::span<const Metric> metrics(Test test);
size_t headline(Test test);
bool more_is_better(Test test); // of the headline

// One value for each metric. Pairs of ranks that run at once: times are taken together, rates are added up.
std::vector<double> figures(const Task& task, const std::vector<Samples>& pairs);

// Of the headlines: 1 is as good as the reference, more is better. 0 if it cannot be said.
double ratio(Test test, double ours, double theirs);

// Whether a message of the reference took less time than anything takes from one processor to another, such as a memcpy
// of 8 bytes: it says nothing about messages.
bool is_nothing(const Task& task, const std::vector<double>& figures);

} // namespace gpurun::bench
