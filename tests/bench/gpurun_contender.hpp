// gpurun's own turn. The object holds what all tests share: buffers, a stream, and the numbering of messages; each test
// is a function in a file of its own.
//
// The two ranks number the messages of a pair alike, so that both know what each message must hold. The contents
// change with every sample if all is validated; else once a task, and what came last is checked when it ends.
#pragma once

#include "buffer.hpp"
#include "captured.hpp"
#include "contender.hpp"
#include "contents.hpp"

namespace gpurun::bench {

inline constexpr int kMessageTag = 2;
inline constexpr int kAnswerTag = 3;

class GpurunContender final : public Contender {
  public:
    explicit GpurunContender(const Ground& ground);
    ~GpurunContender() override;

    std::string how() const override;
    void prepare(const Task& task) override;
    void turn(const Task& task, int samples, Samples& into) override;
    void finish(const Task& task) override;

  private:
    // latency.cpp, window.cpp, exchange.cpp, overlap.cpp, calls.cpp, first.cpp, loan.cpp: one sample each
    void latency(const Task& task, Samples& into);
    void window(const Task& task, Samples& into);
    void exchange(const Task& task, Samples& into);
    void overlap(const Task& task, Samples& into);
    void calls(const Task& task, Samples& into);
    void first(const Task& task, Samples& into);
    void loan(const Task& task, Samples& into);

    // The batch of a latency sample, or a window's messages and their answer: enqueued; or runs of a graph of them.
    void run(const Task& task);
    void enqueue(const Task& task);
    void rounds(const Task& task);
    void messages(const Task& task);
    void exchanges(const Task& task);
    void exchange_once(const Task& task);
    void prepare_exchange(const Task& task);
    void finish_exchange(const Task& task);

    void round(const Task& task, int slot, gpurun_stream stream);
    void transfer(const Task& task, bool computing);
    void loan_once(const Task& task, int slot, bool copies);
    double transfer_us(const Task& task);
    void time_sends(const Task& task, Samples& into);
    void time_receives(const Task& task, Samples& into);

    // Around what is timed, on both ranks at once. Without validation they cost nothing.
    void before(const Task& task);
    void after(const Task& task);

    void write_all(const Task& task);
    void check_all(const Task& task);

    // Starts, and completes into the task's order domain.
    void start_sends(const Task& task, gpurun_request* requests);
    void start_receives(const Task& task, gpurun_request* requests);
    void complete(const Task& task, size_t count, gpurun_request* requests);
    void wait(const Task& task);
    void send_answer(const Task& task);
    void receive_answer(const Task& task);

    gpurun_stream domain(const Task& task) const { return task.order == Order::kHost ? GPURUN_HOST : stream_; }
    // What this rank receives in `test` was made by this rank; -1: it receives nothing.
    int maker(Test test) const;
    bool makes(Test test) const { return pair_.leads() || both_ways(test); }

    Pair pair_;
    Compute& compute_;
    Memory memory_;
    Buffer out_;
    Buffer in_;
    Buffer answer_;
    Contents contents_;
    std::vector<gpurun_request> requests_;
    double compute_us_ = 0;
    uint64_t number_ = 0; // of the message in slot 0 of the sample
    gpurun_stream stream_ = nullptr;
    std::unique_ptr<Captured> captured_; // of the task in graph order
};

} // namespace gpurun::bench
