// NCCL's turn: ncclSend and ncclRecv between the same two ranks, on a stream. All pairs are in one communicator, whose
// id gpurun broadcasts. In host order each operation is waited for, as a program must that uses the bytes at once.
//
// In graph order they are captured, and run again and again.
//
// Windows are groups, NCCL's own way of having several messages under way. Transfers that overlap with a computation
// have a stream beside it, since NCCL's operations are kernels in the order of their stream.

#include "contender.hpp"

#include "call.hpp"
#include "cuda_call.hpp"
#include "cuda_captured.hpp"
#include "nccl_call.hpp"
#include "statistics.hpp"

namespace gpurun::bench {

namespace {

class DeviceMemory {
  public:
    explicit DeviceMemory(size_t bytes) { MUST(cudaMalloc(&data_, bytes)); }
    ~DeviceMemory() { cudaFree(data_); }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    char* slot(int index, size_t bytes) const { return static_cast<char*>(data_) + static_cast<size_t>(index) * bytes; }

  private:
    void* data_ = nullptr;
};

class NcclContender final : public Contender {
  public:
    NcclContender(const Ground& ground, std::unique_ptr<NcclRanks> ranks)
        : pair_(ground.pair), compute_(ground.compute), out_(ground.arena_bytes), in_(ground.arena_bytes),
          answer_(kAnswerBytes), ranks_(std::move(ranks)) {
        MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking));
    }
    ~NcclContender() override {
        captured_.reset();
        ranks_.reset();
        cudaStreamDestroy(beside_);
        cudaStreamDestroy(stream_);
    }

    std::string how() const override { return "ncclSend and ncclRecv, " + nccl_version(); }

    void prepare(const Task& task) override {
        if (task.order == Order::kGraph)
            capture(task);
        if (task.test != Test::kOverlap)
            return;
        std::vector<double> samples;
        for (int i = 0; i < kTransfers; ++i) {
            const double us = timed([&] { transfer(task, false); });
            if (i > 0)
                samples.push_back(us);
        }
        compute_us_ = pair_.larger(median(samples));
    }

    void finish(const Task&) override { captured_.reset(); }

    void turn(const Task& task, int samples, Samples& into) override {
        if (task.test == Test::kOverlap)
            compute_.set_us(compute_us_, task.order); // gpurun's turn has set its own
        for (int i = 0; i < samples; ++i) {
            switch (task.test) {
            case Test::kLatency: latency(task, into); break;
            case Test::kBandwidth:
            case Test::kBidirectional:
            case Test::kRate: window(task, into); break;
            case Test::kExchange: exchange(task, into); break;
            case Test::kOverlap: overlap(task, into); break;
            case Test::kCall: calls(task, into); break;
            case Test::kFirst:
            case Test::kLoan:
            case Test::kCollective: break; // measures(), of_whole_job()
            }
        }
    }

  private:
    void send(const void* data, size_t bytes) {
        MUST_NCCL(nccl().send(data, bytes, kNcclBytes, pair_.partner(), ranks_->comm(), stream_));
    }
    void receive(void* data, size_t bytes) {
        MUST_NCCL(nccl().recv(data, bytes, kNcclBytes, pair_.partner(), ranks_->comm(), stream_));
    }
    void wait() { MUST(cudaStreamSynchronize(stream_)); }
    void end_operation(const Task& task) {
        if (task.order == Order::kHost)
            wait();
    }

    template <typename Function>
    double timed(Function&& function) {
        pair_.meet();
        const double start = gpurun_wtime();
        function();
        return (gpurun_wtime() - start) * 1e6;
    }

    // Connections are opened before, as they are when the test runs in a stream.
    void capture(const Task& task) {
        enqueue(task);
        wait();
        captured_ = std::make_unique<CudaCaptured>(stream_, [&] { enqueue(task); });
    }

    void enqueue(const Task& task) {
        if (task.test == Test::kLatency)
            rounds(task);
        else if (task.test == Test::kExchange)
            exchanges(task);
        else
            messages(task);
    }

    void run(const Task& task) {
        if (captured_ == nullptr)
            return enqueue(task);
        for (int i = 0; i < task.runs; ++i)
            captured_->launch(stream_);
    }

    void rounds(const Task& task) {
        for (int i = 0; i < task.batch; ++i) {
            if (pair_.leads())
                send(out_.slot(0, 0), task.bytes);
            else
                receive(in_.slot(0, 0), task.bytes);
            end_operation(task);
            if (pair_.leads())
                receive(in_.slot(0, 0), task.bytes);
            else
                send(in_.slot(0, 0), task.bytes);
            end_operation(task);
        }
    }

    void latency(const Task& task, Samples& into) {
        const double start = gpurun_wtime();
        run(task);
        wait();
        if (pair_.leads())
            into[0].push_back((gpurun_wtime() - start) * 1e6 / (2.0 * task.batch * task.runs));
    }

    void group(const Task& task) {
        const bool both = both_ways(task.test);
        MUST_NCCL(nccl().group_start());
        for (int i = 0; i < task.window; ++i) {
            if (both || pair_.leads())
                send(out_.slot(i, task.bytes), task.bytes);
            if (both || !pair_.leads())
                receive(in_.slot(i, task.bytes), task.bytes);
        }
        MUST_NCCL(nccl().group_end());
    }

    void messages(const Task& task) {
        group(task);
        end_operation(task);
        if (pair_.leads())
            receive(answer_.slot(0, 0), kAnswerBytes);
        else
            send(answer_.slot(0, 0), kAnswerBytes);
    }

    void window(const Task& task, Samples& into) {
        const double start = gpurun_wtime();
        run(task);
        wait();
        if (pair_.leads())
            into[0].push_back((gpurun_wtime() - start) * 1e6);
    }

    void exchanges(const Task& task) {
        for (int i = 0; i < task.batch; ++i) {
            group(task);
            end_operation(task);
        }
    }

    void exchange(const Task& task, Samples& into) {
        pair_.meet();
        const double start = gpurun_wtime();
        run(task);
        const double called = gpurun_wtime();
        wait();
        const double each = 1e6 / (task.batch * task.runs);
        if (pair_.leads()) {
            into[0].push_back((gpurun_wtime() - start) * each);
            into[1].push_back((called - start) * each);
        }
    }

    void transfer(const Task& task, bool computing) {
        group(task);
        if (computing)
            compute_.start(task.order, beside_);
        wait();
        MUST(cudaStreamSynchronize(beside_));
    }

    void overlap(const Task& task, Samples& into) {
        const double alone = timed([&] { transfer(task, false); });
        const double computation = timed([&] {
            compute_.start(task.order, beside_);
            MUST(cudaStreamSynchronize(beside_));
        });
        const double both = timed([&] { transfer(task, true); });
        if (!pair_.leads())
            return;
        into[0].push_back(alone);
        into[1].push_back(computation);
        into[2].push_back(both);
    }

    // NCCL's calls match on the device: nothing has to be there for a call to return, and each side times its own.
    void calls(const Task& task, Samples& into) {
        pair_.meet();
        for (int i = 0; i < task.window; ++i) {
            const double start = gpurun_wtime();
            if (pair_.leads())
                send(out_.slot(i, task.bytes), task.bytes);
            else
                receive(in_.slot(i, task.bytes), task.bytes);
            into[pair_.leads() ? 0 : 1].push_back((gpurun_wtime() - start) * 1e6);
        }
        wait();
    }

    Pair pair_;
    Compute& compute_;
    DeviceMemory out_;
    DeviceMemory in_;
    DeviceMemory answer_;
    double compute_us_ = 0;
    cudaStream_t stream_ = nullptr;
    cudaStream_t beside_ = nullptr;
    std::unique_ptr<NcclRanks> ranks_;
    std::unique_ptr<CudaCaptured> captured_; // of the task in graph order
};

} // namespace

std::string why_not_nccl(Reference reference, const Options& options, const gpurun_device_info& device) {
    if (device.kind != GPURUN_DEVICE_CUDA)
        return "NCCL needs GPUs, and these devices are emulated; use gpurun --device=cuda";
    for (Memory memory : options.memory)
        if (!on_device(memory))
            return std::string("NCCL sends device memory only; use --memory=device in place of ") + name(memory);
    if (reference == Reference::kNcclWindow && nccl().missing.empty())
        return nccl().missing_windows;
    return nccl().missing;
}

std::unique_ptr<Contender> make_nccl(const Ground& ground) {
    MUST(cudaSetDevice(ground.device.ordinal));
    auto ranks = std::make_unique<NcclRanks>(ground.pair, ground.pair.size() / 2 * 2);
    if (ground.pair.alone())
        return nullptr;
    return std::make_unique<NcclContender>(ground, std::move(ranks));
}

} // namespace gpurun::bench
