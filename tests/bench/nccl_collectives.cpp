// NCCL's turn at the collectives, over all ranks of the job, on a stream: plainly, in memory of cudaMalloc(); or with
// buffers of ncclMemAlloc() that are registered as symmetric windows, through which its kernels reach those of all
// ranks.
//
// What this NCCL has no function for is made of sends and receives in a group, as its manual says; a barrier is an
// all-reduce of one element. In host order each is waited for. What comes out is not checked.

#include "collective_contender.hpp"
#include "cuda_call.hpp"
#include "cuda_captured.hpp"
#include "nccl_call.hpp"

namespace gpurun::bench {

namespace {

// A buffer of the same size in every rank, made and given back by all at once.
class NcclMemory {
  public:
    NcclMemory(NcclComm comm, size_t bytes, bool windowed) : comm_(comm), windowed_(windowed) {
        if (!windowed) {
            MUST(cudaMalloc(&data_, bytes));
            return;
        }
        MUST_NCCL(nccl().mem_alloc(&data_, bytes));
        MUST_NCCL(nccl().window_register(comm, data_, bytes, &window_, kNcclSymmetric));
    }
    ~NcclMemory() {
        if (window_ != nullptr)
            nccl().window_deregister(comm_, window_);
        if (windowed_)
            nccl().mem_free(data_);
        else
            cudaFree(data_);
    }
    NcclMemory(const NcclMemory&) = delete;
    NcclMemory& operator=(const NcclMemory&) = delete;

    char* data() const { return static_cast<char*>(data_); }
    bool registered() const { return window_ != nullptr; } // NCCL may do without, and call that a success

  private:
    NcclComm comm_;
    bool windowed_;
    void* data_ = nullptr;
    NcclWindow window_ = nullptr;
};

class NcclCollectives final : public CollectiveContender {
  public:
    NcclCollectives(const Ground& ground, bool windowed)
        : CollectiveContender(ground.pair), windowed_(windowed), ranks_(ground.pair, ground.pair.size()),
          out_(ranks_.comm(), ground.arena_bytes, windowed), in_(ranks_.comm(), ground.arena_bytes, windowed) {
        MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    ~NcclCollectives() override { cudaStreamDestroy(stream_); }

    std::string how() const override {
        return "collectives of " + nccl_version() + (windowed_ ? ", buffers registered as symmetric windows" : "");
    }

    std::string why_not() const override {
        if (!windowed_ || (out_.registered() && in_.registered()))
            return {};
        return nccl_version() + " registers no symmetric windows here; NCCL_DEBUG=INFO may say why";
    }

    // Connections are opened before anything is captured, as they are when the test runs in a stream.
    void prepare(const Task& task) override {
        if (task.order != Order::kGraph)
            return;
        call(task);
        wait(task);
        captured_ = std::make_unique<CudaCaptured>(stream_, [&] { enqueue(task); });
    }

    void finish(const Task&) override { captured_.reset(); }

  private:
    void run(const Task& task) override {
        if (captured_ == nullptr)
            return enqueue(task);
        for (int i = 0; i < task.runs; ++i)
            captured_->launch(stream_);
    }

    void wait(const Task&) override { MUST(cudaStreamSynchronize(stream_)); }

    void enqueue(const Task& task) {
        for (int i = 0; i < task.batch; ++i)
            call(task);
    }

    void call(const Task& task) {
        switch (task.collective) {
        case Collective::kAllreduce:
        case Collective::kBcast:
        case Collective::kReduce:
        case Collective::kBarrier: return call_whole(task);
        case Collective::kAllgather:
        case Collective::kReduceScatter: return call_in_blocks(task);
        case Collective::kAlltoall: return call_alltoall(task);
        case Collective::kGather: return call_gather(task);
        case Collective::kScatter: return call_scatter(task);
        }
    }

    void call_whole(const Task& task) {
        const size_t count = task.bytes / kElementBytes;
        const void* send = task.in_place ? in_.data() : out_.data();
        NcclComm comm = ranks_.comm();
        if (task.collective == Collective::kBcast)
            MUST_NCCL(nccl().broadcast(send, in_.data(), count, kNcclFloat, kRoot, comm, stream_));
        else if (task.collective == Collective::kReduce)
            MUST_NCCL(nccl().reduce(send, in_.data(), count, kNcclFloat, kNcclSum, kRoot, comm, stream_));
        else if (task.collective == Collective::kBarrier)
            MUST_NCCL(nccl().all_reduce(in_.data(), in_.data(), 1, kNcclFloat, kNcclSum, comm, stream_));
        else
            MUST_NCCL(nccl().all_reduce(send, in_.data(), count, kNcclFloat, kNcclSum, comm, stream_));
    }

    // NCCL is in place where a rank's block is the one of its number in the whole.
    void call_in_blocks(const Task& task) {
        const size_t count = block(task) / kElementBytes;
        char* own = in_.data() + static_cast<size_t>(rank()) * block(task);
        if (task.collective == Collective::kAllgather)
            MUST_NCCL(nccl().all_gather(task.in_place ? own : out_.data(), in_.data(), count, kNcclFloat, ranks_.comm(),
                                        stream_));
        else if (task.in_place)
            MUST_NCCL(nccl().reduce_scatter(in_.data(), own, count, kNcclFloat, kNcclSum, ranks_.comm(), stream_));
        else
            MUST_NCCL(
                nccl().reduce_scatter(out_.data(), in_.data(), count, kNcclFloat, kNcclSum, ranks_.comm(), stream_));
    }

    void call_alltoall(const Task& task) {
        if (nccl().all_to_all != nullptr) {
            MUST_NCCL(nccl().all_to_all(out_.data(), in_.data(), block(task) / kElementBytes, kNcclFloat, ranks_.comm(),
                                        stream_));
            return;
        }
        MUST_NCCL(nccl().group_start());
        for (int other = 0; other < ranks(); ++other) {
            send(task, out_.data() + static_cast<size_t>(other) * block(task), other);
            receive(task, in_.data() + static_cast<size_t>(other) * block(task), other);
        }
        MUST_NCCL(nccl().group_end());
    }

    void call_gather(const Task& task) {
        const bool in_place = task.in_place && is_root();
        char* own = in_place ? in_.data() + kRoot * block(task) : out_.data();
        if (nccl().gather != nullptr) {
            MUST_NCCL(
                nccl().gather(own, in_.data(), block(task) / kElementBytes, kNcclFloat, kRoot, ranks_.comm(), stream_));
            return;
        }
        MUST_NCCL(nccl().group_start());
        if (!in_place)
            send(task, own, kRoot);
        for (int from = 0; from < ranks() && is_root(); ++from)
            if (from != kRoot || !in_place)
                receive(task, in_.data() + static_cast<size_t>(from) * block(task), from);
        MUST_NCCL(nccl().group_end());
    }

    void call_scatter(const Task& task) {
        const bool in_place = task.in_place && is_root();
        char* own = in_place ? out_.data() + kRoot * block(task) : in_.data();
        if (nccl().scatter != nullptr) {
            MUST_NCCL(nccl().scatter(out_.data(), own, block(task) / kElementBytes, kNcclFloat, kRoot, ranks_.comm(),
                                     stream_));
            return;
        }
        MUST_NCCL(nccl().group_start());
        for (int to = 0; to < ranks() && is_root(); ++to)
            if (to != kRoot || !in_place)
                send(task, out_.data() + static_cast<size_t>(to) * block(task), to);
        if (!in_place)
            receive(task, own, kRoot);
        MUST_NCCL(nccl().group_end());
    }

    size_t block(const Task& task) const { return task.bytes / static_cast<size_t>(ranks()); }
    void send(const Task& task, const void* data, int to) {
        MUST_NCCL(nccl().send(data, block(task) / kElementBytes, kNcclFloat, to, ranks_.comm(), stream_));
    }
    void receive(const Task& task, void* data, int from) {
        MUST_NCCL(nccl().recv(data, block(task) / kElementBytes, kNcclFloat, from, ranks_.comm(), stream_));
    }

    bool windowed_;
    NcclRanks ranks_;
    NcclMemory out_;
    NcclMemory in_;
    cudaStream_t stream_ = nullptr;
    std::unique_ptr<CudaCaptured> captured_; // of the task in graph order
};

} // namespace

std::unique_ptr<Contender> make_nccl_collectives(const Ground& ground, Reference reference) {
    MUST(cudaSetDevice(ground.device.ordinal));
    return std::make_unique<NcclCollectives>(ground, reference == Reference::kNcclWindow);
}

} // namespace gpurun::bench
