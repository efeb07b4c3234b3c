// Messages between the two ranks with the time taken: a ball that goes back and forth, and a window of messages one
// way. Both ranks call every function at once; what rank 0 measures is what counts. One thread.
//
// The ball is the same bytes all the way: rank 1 returns what it received, so that bytes lost anywhere are seen by
// check() in both ranks. Nothing is checked inside of what is timed.
#pragma once

#include "options.hpp"

#include <gpurun/gpurun.h>

#include <vector>

namespace gpurun::bench {

// Memory of one kind.
class Buffer {
  public:
    Buffer(Memory memory, size_t bytes);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data() const { return data_; }

  private:
    Memory memory_;
    void* data_ = nullptr;
};

class PingPong {
  public:
    PingPong(int rank, Memory memory, size_t largest);
    ~PingPong();
    PingPong(const PingPong&) = delete;
    PingPong& operator=(const PingPong&) = delete;

    // Puts bytes that depend on size and place where they start, and others where they will arrive.
    void prepare(size_t bytes);

    // Microseconds one way: a sample for each round (host), or for each batch of rounds that is enqueued together and
    // waited for once (stream).
    std::vector<double> one_way_us(size_t bytes, int rounds, Order order);
    // Microseconds for each of `messages` from rank 0 to rank 1, until rank 0 knows that all have arrived.
    double window_us(size_t bytes, int messages, Order order);

    // Ends the job if what arrived is not what was sent.
    void check(size_t bytes);

  private:
    static constexpr int kBatch = 50;

    void round(size_t bytes, gpurun_stream stream);
    void wait(Order order);
    gpurun_stream domain(Order order) const { return order == Order::kStream ? stream_ : GPURUN_HOST; }

    int rank_;
    Buffer ball_;
    Buffer caught_;
    Buffer answer_;
    std::vector<unsigned char> expected_;
    std::vector<unsigned char> read_;
    gpurun_stream stream_ = nullptr;
};

} // namespace gpurun::bench
