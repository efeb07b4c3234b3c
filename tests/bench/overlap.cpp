// Overlap: both ranks send each other a message and compute meanwhile. Against it stand the same transfer and the same
// computation alone, in turns, each of about the same length.

#include "gpurun_contender.hpp"

#include "call.hpp"
#include "statistics.hpp"

namespace gpurun::bench {

void GpurunContender::transfer(const Task& task, bool computing) {
    start_receives(task, requests_.data());
    start_sends(task, requests_.data() + task.window);
    if (computing)
        compute_.start(task.order, stream_);
    complete(task, 2 * static_cast<size_t>(task.window), requests_.data());
    wait(task);
}

double GpurunContender::transfer_us(const Task& task) {
    std::vector<double> samples;
    for (int i = 0; i < kTransfers; ++i) {
        before(task);
        pair_.meet();
        const double start = gpurun_wtime();
        transfer(task, false);
        if (i > 0)
            samples.push_back((gpurun_wtime() - start) * 1e6);
        after(task);
    }
    return median(samples);
}

void GpurunContender::overlap(const Task& task, Samples& into) {
    double us[3];
    const auto timed = [&](size_t which, auto&& what) {
        pair_.meet();
        const double start = gpurun_wtime();
        what();
        us[which] = (gpurun_wtime() - start) * 1e6;
    };
    before(task);
    timed(0, [&] { transfer(task, false); });
    after(task);
    timed(1, [&] {
        compute_.start(task.order, stream_);
        wait(task);
    });
    before(task);
    timed(2, [&] { transfer(task, true); });
    after(task);
    if (pair_.leads())
        for (size_t which = 0; which < 3; ++which)
            into[which].push_back(us[which]);
}

} // namespace gpurun::bench
