// A true ping-pong: rank 1 returns the bytes that it received, from where they arrived, so that bytes lost anywhere are
// seen by both ranks.
//
// In stream order a batch is enqueued and waited for once; in graphs it is captured once, and some runs of it are.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::round(const Task& task, int slot, gpurun_stream stream) {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    void* in = in_.slot(slot, task.bytes);
    const int other = pair_.partner();
    if (pair_.leads()) {
        CALL(gpurun_send(out_.slot(slot, task.bytes), task.bytes, GPURUN_BYTE, other, kMessageTag, world, stream));
        CALL(gpurun_recv(in, task.bytes, GPURUN_BYTE, other, kMessageTag, world, stream, nullptr));
    } else {
        CALL(gpurun_recv(in, task.bytes, GPURUN_BYTE, other, kMessageTag, world, stream, nullptr));
        CALL(gpurun_send(in, task.bytes, GPURUN_BYTE, other, kMessageTag, world, stream));
    }
}

void GpurunContender::rounds(const Task& task) {
    const gpurun_stream stream = domain(task);
    const int slots = task.slots();
    for (int i = 0; i < task.batch; ++i)
        round(task, i % slots, stream);
}

void GpurunContender::latency(const Task& task, Samples& into) {
    before(task);
    const double start = gpurun_wtime();
    run(task);
    wait(task);
    if (pair_.leads())
        into[0].push_back((gpurun_wtime() - start) * 1e6 / (2.0 * task.batch * task.runs));
    after(task);
}

} // namespace gpurun::bench
