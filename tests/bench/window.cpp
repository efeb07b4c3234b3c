// Bandwidth and message rate: a window of messages in flight, one way or both ways, and an answer that all have
// arrived. The receives are started first, as a program does that wants speed.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::window(const Task& task, Samples& into) {
    const bool sends = makes(task.test);
    const bool receives = maker(task.test) >= 0;
    before(task);
    const double start = gpurun_wtime();
    size_t count = 0;
    if (receives) {
        start_receives(task, requests_.data());
        count += static_cast<size_t>(task.window);
    }
    if (sends) {
        start_sends(task, requests_.data() + count);
        count += static_cast<size_t>(task.window);
    }
    complete(task, count, requests_.data());
    if (pair_.leads())
        receive_answer(task);
    else
        send_answer(task);
    wait(task);
    if (pair_.leads())
        into[0].push_back((gpurun_wtime() - start) * 1e6);
    after(task);
}

} // namespace gpurun::bench
