// The first message out of memory that no message has come out of yet: whatever has to be found out about such memory,
// exported, or mapped, is part of it. The memory is made, and given back, outside of what is timed; the answer that
// ends the clock takes as long as the smallest message of the host's.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::first(const Task& task, Samples& into) {
    number_ += 1;
    const gpurun_stream stream = domain(task);
    if (pair_.leads()) {
        const Buffer fresh(memory_, task.bytes);
        contents_.write(fresh.slot(0, task.bytes), task.bytes, pair_.rank(), number_);
        pair_.meet();
        const double start = gpurun_wtime();
        CALL(gpurun_send(fresh.slot(0, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                         GPURUN_COMM_WORLD, stream));
        receive_answer(task);
        wait(task);
        into[0].push_back((gpurun_wtime() - start) * 1e6);
    } else {
        void* in = in_.slot(0, task.bytes);
        pair_.meet();
        CALL(
            gpurun_recv(in, task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag, GPURUN_COMM_WORLD, stream, nullptr));
        wait(task);
        send_answer(task);
        if (task.validate)
            contents_.check(in, task.bytes, pair_.partner(), number_);
        wait(task);
    }
}

} // namespace gpurun::bench
