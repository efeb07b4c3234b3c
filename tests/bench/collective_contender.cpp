#include "collective_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void CollectiveContender::sample(const Task& task, Samples& into) {
    before(task);
    job_.meet_all();
    const double start = gpurun_wtime();
    run(task);
    const double called = gpurun_wtime();
    wait(task);
    const double done = gpurun_wtime();
    const double each = 1e6 / (task.batch * task.runs);
    double us[2] = {(done - start) * each, (called - start) * each};
    CALL(gpurun_allreduce(GPURUN_IN_PLACE, us, 2, GPURUN_DOUBLE, GPURUN_MAX, GPURUN_COMM_WORLD, GPURUN_HOST));
    if (is_root())
        for (size_t which : {0, 1})
            into[which].push_back(us[which]);
    after(task);
}

void CollectiveContender::turn(const Task& task, int samples, Samples& into) {
    for (int i = 0; i < samples; ++i)
        sample(task, into);
}

} // namespace gpurun::bench
