// The streams of one emulated device: which handles are streams, and the default stream, made when first used.
//
// A handle is a number that names one stream for ever (handle_numbers.hpp), and is looked up here; any may be asked
// about. Any thread.
#pragma once

#include "device/emulated/handle_numbers.hpp"
#include "device/emulated/stream_queue.hpp"
#include "device/types.hpp"

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace gpurun::device::emulated {

class Streams {
  public:
    // `control` must outlive this object.
    Streams(const Control& control, uint64_t seed, int64_t longest_delay_us)
        : control_(control), seed_(seed), longest_delay_us_(longest_delay_us) {}

    base::Result<Stream> create();
    base::Result<void> destroy(Stream stream);
    // kStream if it is none. The queue lives while the caller holds it.
    base::Result<std::shared_ptr<StreamQueue>> find(Stream stream);
    base::Result<void> wait_all();
    // The streams for its branches.
    base::Result<void> give_streams(GraphBody& graph);
    void release_dead(); // StreamQueue::release_dead(), in all

  private:
    base::Result<std::shared_ptr<StreamQueue>> start();
    std::vector<std::shared_ptr<StreamQueue>> all();

    const Control& control_;
    const uint64_t seed_;
    const int64_t longest_delay_us_;
    Slots slots_{kStreams};
    std::mutex host_functions_;      // of all streams, one at a time: so does CUDA call them
    std::atomic<uint64_t> names_{0}; // given so far
    std::shared_mutex mutex_;        // guards default_ and streams_
    std::shared_ptr<StreamQueue> default_;
    std::unordered_map<Stream, std::shared_ptr<StreamQueue>, HashHandle> streams_;
    std::vector<std::weak_ptr<StreamQueue>> of_graphs_;
};

} // namespace gpurun::device::emulated
