// What a call costs the host when nothing has to be waited for: a send whose receive is there, a receive whose message
// is there. Each call is timed for itself; the stream is waited for after a window of them, outside of the clock.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

// The leader sends into receives that its partner has started.
void GpurunContender::time_sends(const Task& task, Samples& into) {
    before(task);
    if (!pair_.leads())
        start_receives(task, requests_.data());
    pair_.meet();
    if (pair_.leads()) {
        for (int i = 0; i < task.window; ++i) {
            const double start = gpurun_wtime();
            CALL(gpurun_send(out_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                             GPURUN_COMM_WORLD, stream_));
            into[0].push_back((gpurun_wtime() - start) * 1e6);
        }
    } else {
        complete(task, static_cast<size_t>(task.window), requests_.data());
    }
    wait(task);
    after(task);
}

// The partner receives what the leader has started to send.
void GpurunContender::time_receives(const Task& task, Samples& into) {
    before(task);
    if (pair_.leads())
        start_sends(task, requests_.data());
    pair_.meet();
    if (pair_.leads()) {
        complete(task, static_cast<size_t>(task.window), requests_.data());
    } else {
        for (int i = 0; i < task.window; ++i) {
            const double start = gpurun_wtime();
            CALL(gpurun_recv(in_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                             GPURUN_COMM_WORLD, stream_, nullptr));
            into[1].push_back((gpurun_wtime() - start) * 1e6);
        }
    }
    wait(task);
    after(task);
}

void GpurunContender::calls(const Task& task, Samples& into) {
    time_sends(task, into);
    time_receives(task, into);
}

} // namespace gpurun::bench
