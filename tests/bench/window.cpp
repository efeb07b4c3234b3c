// Bandwidth and message rate: a window of messages in flight, one way or both ways, and an answer that all have
// arrived. The receives are started first, as a program does that wants speed; but not in graphs, where kernels wait
// for them, and what they wait for must have run already.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::messages(const Task& task) {
    const bool sends = makes(task.test);
    const bool receives = maker(task.test) >= 0;
    const bool sends_first = task.order == Order::kGraph;
    size_t count = 0;
    const auto start = [&](bool sending) {
        if (sending)
            start_sends(task, requests_.data() + count);
        else
            start_receives(task, requests_.data() + count);
        count += static_cast<size_t>(task.window);
    };
    if (sends && sends_first)
        start(true);
    if (receives)
        start(false);
    if (sends && !sends_first)
        start(true);
    complete(task, count, requests_.data());
    if (pair_.leads())
        receive_answer(task);
    else
        send_answer(task);
}

void GpurunContender::window(const Task& task, Samples& into) {
    before(task);
    const double start = gpurun_wtime();
    run(task);
    wait(task);
    if (pair_.leads())
        into[0].push_back((gpurun_wtime() - start) * 1e6);
    after(task);
}

} // namespace gpurun::bench
