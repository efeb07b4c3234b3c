// gpurun's collectives, over all ranks of the job: sums of floats, the root is rank 0.
//
// In place, what a rank gives lies where it gets something, wherever the function allows that; of rooted ones, on the
// root. A call in place changes what the next one is given, so what many have left says nothing: unless each is
// validated, the contents are made anew at a task's end, for one call more.

#include "buffer.hpp"
#include "call.hpp"
#include "captured.hpp"
#include "collective_contender.hpp"
#include "collective_contents.hpp"
#include "tuning.hpp"

#include <algorithm>
#include <string_view>

namespace gpurun::bench {

namespace {

class GpurunCollectives final : public CollectiveContender {
  public:
    GpurunCollectives(const Ground& ground, const char* algorithm)
        : CollectiveContender(ground.pair), out_(ground.memory(), ground.arena_bytes),
          in_(ground.memory(), ground.arena_bytes), contents_(ground.pair.rank(), ground.pair.size()) {
        CALL(gpurun_stream_create(&stream_));
        CALL(gpurun_comm_dup(GPURUN_COMM_WORLD, &comm_));
        if (algorithm != nullptr)
            choose(algorithm, ground.options.collectives);
    }
    ~GpurunCollectives() override {
        CALL(gpurun_comm_free(&comm_));
        CALL(gpurun_stream_destroy(stream_));
    }

    std::string how() const override { return "collectives of gpurun by this algorithm, where it can be used"; }
    void prepare(const Task& task) override;
    void finish(const Task& task) override;

  private:
    void before(const Task& task) override;
    void after(const Task& task) override;
    void run(const Task& task) override;
    void wait(const Task& task) override;

    void choose(const char* algorithm, const std::vector<Collective>& collectives);
    // Of those that are called together, one; with `ret`, starts a request.
    void call(const Task& task, int slot, gpurun_request* ret);
    void call_together(const Task& task);
    void enqueue(const Task& task);
    void capture(const Task& task);
    void write(const Task& task);
    void check(const Task& task);
    bool in_place_here(const Task& task) const;
    CollectiveBuffers buffers(const Task& task, int slot) const;
    gpurun_stream domain(const Task& task) const { return task.order == Order::kHost ? GPURUN_HOST : stream_; }

    gpurun_comm comm_ = GPURUN_COMM_NULL;
    Buffer out_;
    Buffer in_;
    CollectiveContents contents_;
    uint64_t number_ = 0; // of the contents of the first slot
    std::vector<gpurun_request> requests_;
    gpurun_stream stream_ = nullptr;
    std::unique_ptr<Captured> captured_; // of the task in graph order
};

// For those that have it; "auto", for those that have several.
void GpurunCollectives::choose(const char* algorithm, const std::vector<Collective>& collectives) {
    const std::string_view asked = algorithm;
    for (const Collective each : collectives) {
        const auto all = algorithms_of(each);
        if (std::any_of(all.begin(), all.end(), [&](Reference one) { return asked == "auto" || asked == name(one); }))
            CALL(gpurun_comm_set_algorithm(comm_, name(each), algorithm));
    }
}

bool GpurunCollectives::in_place_here(const Task& task) const {
    switch (task.collective) {
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter: return task.in_place && is_root();
    default: return task.in_place;
    }
}

void GpurunCollectives::write(const Task& task) {
    number_ += static_cast<uint64_t>(task.window);
    for (int slot = 0; slot < task.window; ++slot)
        contents_.write(task, buffers(task, slot), number_ + static_cast<uint64_t>(slot));
}

void GpurunCollectives::check(const Task& task) {
    for (int slot = 0; slot < task.window; ++slot)
        contents_.check(task, buffers(task, slot), number_ + static_cast<uint64_t>(slot));
}

CollectiveBuffers GpurunCollectives::buffers(const Task& task, int slot) const {
    auto* out = static_cast<unsigned char*>(out_.slot(slot, task.bytes));
    auto* in = static_cast<unsigned char*>(in_.slot(slot, task.bytes));
    if (!in_place_here(task))
        return {out, in};
    const size_t own = static_cast<size_t>(rank()) * (task.bytes / static_cast<size_t>(ranks()));
    switch (task.collective) {
    case Collective::kAllgather:
    case Collective::kGather: return {in + own, in};
    case Collective::kScatter: return {out, out + own};
    default: return {in, in};
    }
}

void GpurunCollectives::call(const Task& task, int slot, gpurun_request* ret) {
    const gpurun_comm comm = comm_;
    const gpurun_stream stream = domain(task);
    const gpurun_datatype type = GPURUN_FLOAT;
    const gpurun_op op = GPURUN_SUM;
    const size_t count = task.bytes / kElementBytes;
    const size_t block = count / static_cast<size_t>(ranks());
    void* in = in_.slot(slot, task.bytes);
    void* out = out_.slot(slot, task.bytes);
    void* send = in_place_here(task) ? GPURUN_IN_PLACE : out;
    void* recv = in_place_here(task) ? GPURUN_IN_PLACE : in; // of a scatter
    // The function itself, or the one that starts a request.
    const auto make = [&](auto function, auto starts, auto... arguments) {
        if (ret == nullptr)
            CALL(function(arguments...));
        else
            CALL(starts(arguments..., ret));
    };
    switch (task.collective) {
    case Collective::kAllreduce:
        make(gpurun_allreduce, gpurun_iallreduce, send, in, count, type, op, comm, stream);
        break;
    case Collective::kBcast: make(gpurun_bcast, gpurun_ibcast, in, count, type, kRoot, comm, stream); break;
    case Collective::kAllgather:
        make(gpurun_allgather, gpurun_iallgather, send, block, type, in, block, type, comm, stream);
        break;
    case Collective::kAlltoall:
        make(gpurun_alltoall, gpurun_ialltoall, send, block, type, in, block, type, comm, stream);
        break;
    case Collective::kReduceScatter:
        make(gpurun_reduce_scatter_block, gpurun_ireduce_scatter_block, send, in, block, type, op, comm, stream);
        break;
    case Collective::kReduce:
        make(gpurun_reduce, gpurun_ireduce, send, in, count, type, op, kRoot, comm, stream);
        break;
    case Collective::kGather:
        make(gpurun_gather, gpurun_igather, send, block, type, in, block, type, kRoot, comm, stream);
        break;
    case Collective::kScatter:
        make(gpurun_scatter, gpurun_iscatter, out, block, type, recv, block, type, kRoot, comm, stream);
        break;
    case Collective::kBarrier: make(gpurun_barrier, gpurun_ibarrier, comm, stream); break;
    }
}

void GpurunCollectives::call_together(const Task& task) {
    const bool requests = task.form == Form::kRequests;
    const bool group = task.form == Form::kGroup;
    requests_.resize(static_cast<size_t>(task.window));
    if (group)
        CALL(gpurun_group_begin());
    for (int slot = 0; slot < task.window; ++slot)
        call(task, slot, requests ? &requests_[static_cast<size_t>(slot)] : nullptr);
    if (group)
        CALL(gpurun_group_end());
    if (requests)
        CALL(gpurun_waitall(requests_.size(), requests_.data(), domain(task), nullptr));
}

void GpurunCollectives::enqueue(const Task& task) {
    for (int i = 0; i < task.batch; i += task.window)
        call_together(task);
}

void GpurunCollectives::capture(const Task& task) {
    if (task.order == Order::kGraph)
        captured_ = std::make_unique<Captured>(stream_, [&] { enqueue(task); });
}

void GpurunCollectives::run(const Task& task) {
    if (captured_ == nullptr)
        return enqueue(task);
    for (int i = 0; i < task.runs; ++i)
        captured_->launch(stream_);
}

void GpurunCollectives::wait(const Task& task) {
    if (task.order != Order::kHost)
        CALL(gpurun_stream_synchronize(stream_));
}

void GpurunCollectives::before(const Task& task) {
    if (task.validate)
        write(task);
}

void GpurunCollectives::after(const Task& task) {
    if (task.validate)
        check(task);
}

void GpurunCollectives::prepare(const Task& task) {
    for (const Buffer* buffer : {&in_, &out_})
        CALL(gpurun_memset(buffer->slot(0, 0), kStale, task.bytes * static_cast<size_t>(task.window), GPURUN_HOST));
    write(task);
    job_.meet_all();
    capture(task);
}

void GpurunCollectives::finish(const Task& task) {
    captured_.reset();
    if (task.validate)
        return; // all were checked, the last ones too
    if (task.in_place) {
        Task once = task;
        once.batch = once.window;
        once.runs = 1;
        write(once);
        capture(once);
        run(once);
        wait(once);
        captured_.reset();
    }
    check(task);
}

} // namespace

std::unique_ptr<Contender> make_gpurun_collectives(const Ground& ground, const char* algorithm) {
    return std::make_unique<GpurunCollectives>(ground, algorithm);
}

} // namespace gpurun::bench
