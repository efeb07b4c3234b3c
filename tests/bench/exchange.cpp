// An exchange: some messages each way between the ranks of a pair, all at once, as a program does in each step of a
// stencil, in each of the forms that it may take. In stream order several exchanges are enqueued and waited for once,
// and how long the calls of one take is a figure of its own.

#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

void GpurunContender::prepare_exchange(const Task& task) {
    if (task.form != Form::kStartall)
        return;
    gpurun_request* requests = requests_.data();
    for (int i = 0; i < task.window; ++i) {
        CALL(gpurun_recv_init(in_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                              GPURUN_COMM_WORLD, domain(task), requests++));
        CALL(gpurun_send_init(out_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                              GPURUN_COMM_WORLD, domain(task), requests++));
    }
}

void GpurunContender::finish_exchange(const Task& task) {
    if (task.form == Form::kStartall)
        for (int i = 0; i < 2 * task.window; ++i)
            CALL(gpurun_request_free(&requests_[static_cast<size_t>(i)]));
}

void GpurunContender::exchange_once(const Task& task) {
    const size_t count = 2 * static_cast<size_t>(task.window);
    const auto bytes = task.bytes;
    switch (task.form) {
    case Form::kBlocking: // of collectives alone
    case Form::kSendrecv:
        for (int i = 0; i < task.window; ++i)
            CALL(gpurun_sendrecv(out_.slot(i, bytes), bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                                 in_.slot(i, bytes), bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                                 GPURUN_COMM_WORLD, domain(task), nullptr));
        break;
    case Form::kRequests:
        start_receives(task, requests_.data());
        start_sends(task, requests_.data() + task.window);
        complete(task, count, requests_.data());
        break;
    case Form::kStartall:
        CALL(gpurun_startall(count, requests_.data()));
        complete(task, count, requests_.data());
        break;
    case Form::kGroup:
        CALL(gpurun_group_begin());
        for (int i = 0; i < task.window; ++i) {
            CALL(gpurun_send(out_.slot(i, bytes), bytes, GPURUN_BYTE, pair_.partner(), kMessageTag, GPURUN_COMM_WORLD,
                             domain(task)));
            CALL(gpurun_recv(in_.slot(i, bytes), bytes, GPURUN_BYTE, pair_.partner(), kMessageTag, GPURUN_COMM_WORLD,
                             domain(task), nullptr));
        }
        CALL(gpurun_group_end());
        break;
    }
}

void GpurunContender::exchanges(const Task& task) {
    for (int i = 0; i < task.batch; ++i)
        exchange_once(task);
}

void GpurunContender::exchange(const Task& task, Samples& into) {
    before(task);
    pair_.meet();
    const double start = gpurun_wtime();
    run(task);
    const double called = gpurun_wtime();
    wait(task);
    const double each = 1e6 / (task.batch * task.runs);
    if (pair_.leads()) {
        into[0].push_back((gpurun_wtime() - start) * each);
        into[1].push_back((called - start) * each);
    }
    after(task);
}

} // namespace gpurun::bench
