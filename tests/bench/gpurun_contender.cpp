#include "gpurun_contender.hpp"

#include "call.hpp"

namespace gpurun::bench {

GpurunContender::GpurunContender(const Ground& ground)
    : pair_(ground.pair), compute_(ground.compute), memory_(ground.memory()), out_(memory_, ground.arena_bytes),
      in_(memory_, ground.arena_bytes), answer_(memory_, kAnswerBytes), contents_(ground.pair.rank()),
      requests_(2 * static_cast<size_t>(ground.options.window), GPURUN_REQUEST_NULL) {
    CALL(gpurun_stream_create(&stream_));
}

GpurunContender::~GpurunContender() { CALL(gpurun_stream_destroy(stream_)); }

std::string GpurunContender::how() const { return "messages"; }

int GpurunContender::maker(Test test) const {
    if (test == Test::kLatency) // the ball comes back to who threw it
        return pair_.rank() & ~1;
    return both_ways(test) || !pair_.leads() ? pair_.partner() : -1;
}

// ---- what messages hold

void GpurunContender::write_all(const Task& task) {
    if (!makes(task.test))
        return;
    for (int i = 0; i < task.slots(); ++i)
        contents_.write(out_.slot(i, task.bytes), task.bytes, pair_.rank(), number_ + static_cast<uint64_t>(i));
}

void GpurunContender::check_all(const Task& task) {
    const int sender = maker(task.test);
    if (sender < 0)
        return;
    for (int i = 0; i < task.slots(); ++i)
        contents_.check(in_.slot(i, task.bytes), task.bytes, sender, number_ + static_cast<uint64_t>(i));
}

void GpurunContender::before(const Task& task) {
    if (!task.validate)
        return;
    number_ += static_cast<uint64_t>(task.slots());
    write_all(task);
    pair_.meet(); // the clock must not run while the other side is still writing, or checking what came before
}

void GpurunContender::after(const Task& task) {
    if (task.validate)
        check_all(task);
}

void GpurunContender::prepare(const Task& task) {
    number_ += static_cast<uint64_t>(task.slots());
    write_all(task);
    const size_t all = task.bytes * static_cast<size_t>(task.slots());
    CALL(gpurun_memset(in_.slot(0, task.bytes), kStale, all, GPURUN_HOST));
    pair_.meet();
    if (task.test == Test::kExchange)
        prepare_exchange(task);
    if (task.order == Order::kGraph)
        captured_ = std::make_unique<Captured>(stream_, [&] { enqueue(task); });
    if (task.test == Test::kLoan) { // so that what the last check looks at is there without validation, too
        loan_once(task, 0, true);
        wait(task);
    }
    if (task.test == Test::kOverlap)
        compute_us_ = pair_.larger(transfer_us(task));
}

void GpurunContender::finish(const Task& task) {
    captured_.reset();
    if (task.test == Test::kExchange)
        finish_exchange(task);
    if (!task.validate) // else all were checked, the last ones too
        check_all(task);
}

void GpurunContender::turn(const Task& task, int samples, Samples& into) {
    if (task.test == Test::kOverlap)
        compute_.set_us(compute_us_, task.order); // another contender's turn has set its own
    for (int i = 0; i < samples; ++i) {
        switch (task.test) {
        case Test::kLatency: latency(task, into); break;
        case Test::kBandwidth:
        case Test::kBidirectional:
        case Test::kRate: window(task, into); break;
        case Test::kExchange: exchange(task, into); break;
        case Test::kOverlap: overlap(task, into); break;
        case Test::kCall: calls(task, into); break;
        case Test::kFirst: first(task, into); break;
        case Test::kLoan: loan(task, into); break;
        case Test::kCollective: break; // of_whole_job()
        }
    }
}

// ---- pieces of tests

void GpurunContender::enqueue(const Task& task) {
    if (task.test == Test::kLatency)
        rounds(task);
    else if (task.test == Test::kExchange)
        exchanges(task);
    else
        messages(task);
}

void GpurunContender::run(const Task& task) {
    if (captured_ == nullptr)
        return enqueue(task);
    for (int i = 0; i < task.runs; ++i)
        captured_->launch(stream_);
}

void GpurunContender::start_sends(const Task& task, gpurun_request* requests) {
    for (int i = 0; i < task.window; ++i)
        CALL(gpurun_isend(out_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                          GPURUN_COMM_WORLD, domain(task), &requests[i]));
}

void GpurunContender::start_receives(const Task& task, gpurun_request* requests) {
    for (int i = 0; i < task.window; ++i)
        CALL(gpurun_irecv(in_.slot(i, task.bytes), task.bytes, GPURUN_BYTE, pair_.partner(), kMessageTag,
                          GPURUN_COMM_WORLD, domain(task), &requests[i]));
}

void GpurunContender::complete(const Task& task, size_t count, gpurun_request* requests) {
    CALL(gpurun_waitall(count, requests, domain(task), nullptr));
}

void GpurunContender::wait(const Task& task) {
    if (task.order != Order::kHost)
        CALL(gpurun_stream_synchronize(stream_));
}

void GpurunContender::send_answer(const Task& task) {
    CALL(gpurun_send(answer_.slot(0, 0), kAnswerBytes, GPURUN_BYTE, pair_.partner(), kAnswerTag, GPURUN_COMM_WORLD,
                     domain(task)));
}

void GpurunContender::receive_answer(const Task& task) {
    CALL(gpurun_recv(answer_.slot(0, 0), kAnswerBytes, GPURUN_BYTE, pair_.partner(), kAnswerTag, GPURUN_COMM_WORLD,
                     domain(task), nullptr));
}

std::unique_ptr<Contender> make_gpurun(const Ground& ground) { return std::make_unique<GpurunContender>(ground); }

} // namespace gpurun::bench
