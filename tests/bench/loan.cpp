// Memory that is lent and given back: half of a round trip, next to half of a ping-pong (latency.cpp). The borrower
// does nothing with it, unless all is validated.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::loan_once(const Task& task, int slot, bool copies) {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    const gpurun_stream stream = domain(task);
    if (pair_.leads()) {
        gpurun_request request;
        CALL(gpurun_lend(out_.slot(slot, task.bytes), task.bytes, GPURUN_LOAN_EXCLUSIVE, pair_.partner(), kMessageTag,
                         world, stream, &request));
        CALL(gpurun_wait(&request, stream, nullptr));
        return;
    }
    gpurun_loan loan;
    CALL(gpurun_borrow(pair_.partner(), kMessageTag, world, stream, &loan, nullptr));
    if (copies) {
        void* lent = nullptr;
        CALL(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
        CALL(gpurun_memcpy(in_.slot(slot, task.bytes), lent, task.bytes, stream));
    }
    CALL(gpurun_give_back(&loan, stream));
}

void GpurunContender::loan(const Task& task, Samples& into) {
    before(task);
    const int slots = task.slots();
    const double start = gpurun_wtime();
    for (int i = 0; i < task.batch; ++i)
        loan_once(task, i % slots, task.validate);
    wait(task);
    if (pair_.leads())
        into[0].push_back((gpurun_wtime() - start) * 1e6 / (2.0 * task.batch));
    after(task);
}

} // namespace gpurun::bench
