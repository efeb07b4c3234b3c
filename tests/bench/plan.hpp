// What is measured, in which portions. Pure: from the options and what the devices are to the tasks of the run.
//
// A task is one test, at one size, in one order domain. gpurun and the references take turns in it, each with a number
// of samples, so that drifts of the machine meet all of them. What a sample is depends on the test:
//
//   latency                        a batch of round trips: one in host order, several that are enqueued together and
//                                  waited for once in stream order; in graphs, some runs of a captured batch
//   bandwidth, bidirectional, rate a window of messages, and the answer that all have arrived; in graphs, a run of both
//   exchange                       one in host order, several that are enqueued together in stream order, as of latency
//   collective                     one in host order, several in stream order, as of exchange, but by all ranks of the
//                                  job
//   overlap                        a transfer, a computation, and both together
//   call                           a window of sends, and one of receives
#pragma once

#include "options.hpp"

#include <cstddef>
#include <vector>

namespace gpurun::bench {

struct Task {
    Test test = Test::kLatency;
    Order order = Order::kStream;
    Form form = Form::kGroup; // of exchanges
    size_t bytes = 8;
    int window = 1; // messages in flight
    int batch = 1;  // round trips, exchanges or collectives of a sample; in graphs, of a run
    int runs = 1;   // in graphs: of a sample
    int turns = 1;
    int samples = 1; // of a turn
    int warmup = 0;  // samples
    bool validate = false;
    Collective collective = Collective::kAllreduce; // the test's
    bool in_place = false;
    int ranks = 2; // of the job

    // How many buffers each way the messages of a sample are spread over.
    int slots() const;
    bool operator==(const Task&) const = default;
};

// Bytes that all buffers of one way may take.
size_t arena_limit(const Options& options, bool on_gpus);

// In the order in which they run: by test, collective, order domain, size.
std::vector<Task> plan(const Options& options, bool on_gpus, int ranks = 2);

// Whether the reference has something to hold against this.
bool measures(Reference reference, const Task& task);

// All ranks of the job make it together, and not each pair for itself.
constexpr bool of_whole_job(Test test) { return test == Test::kCollective; }

// Messages of `test` go both ways at once.
bool both_ways(Test test);

} // namespace gpurun::bench
