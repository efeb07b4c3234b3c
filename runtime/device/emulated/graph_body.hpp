// What a capture has recorded: the operations of all streams that took part, in the order in which they were enqueued,
// and the edges between those streams.
//
// The stream whose capture was begun is branch 0; one that waits for an event of the capture becomes another branch. A
// run enqueues everything in the order of the capture, so that nothing waits for what comes later: branch 0 in the
// stream that it is launched in, each other branch in a stream of the graph's own. Runs of one graph do not overlap.
//
// Lives as long as its handle and its runs. While it is captured it is not guarded, as CUDA's are not: one thread at a
// time adds to it, and a thread sanitizer tells who does not keep to that. Afterwards, any thread.
#pragma once

#include "base/status.hpp"
#include "device/emulated/handle_numbers.hpp"
#include "device/emulated/operations.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace gpurun::device::emulated {

class StreamQueue;

class GraphBody {
  public:
    GraphBody() = default;
    ~GraphBody();
    GraphBody(const GraphBody&) = delete;
    GraphBody& operator=(const GraphBody&) = delete;

    Graph handle() const { return handle_; } // from the begin of its capture on

    // ---- while it is captured
    void add(size_t branch, const Operation& operation);
    base::Result<size_t> add_branch(StreamQueue& queue); // kEvent after close()
    size_t add_edge(size_t branch);                      // what `branch` has recorded so far
    void await_edge(size_t branch, size_t edge);         // what follows in `branch` comes after it
    void at_end(const CallHost& call);
    // Nothing is added any more; the streams that took part are let go. kStream unless branch 0 waits, by whatever way,
    // for all others.
    base::Result<void> close(const std::shared_ptr<GraphBody>& self);
    size_t branches() const { return branches_.size(); }

    // ---- after close()
    void give_stream(std::shared_ptr<StreamQueue> queue) { streams_.push_back(std::move(queue)); } // to each branch > 0
    base::Result<void> launch(const std::shared_ptr<GraphBody>& self, StreamQueue& queue);
    bool runs(); // whether a run is under way

  private:
    struct Branch {
        StreamQueue* queue; // while it is captured
        bool joined = false;
    };
    struct Edge {
        std::atomic<uint64_t> runs{0}; // that have come here
        size_t branch = 0;
        size_t end = 0;       // of the operations before it
        bool awaited = false; // by another branch: else no run comes here, which might be over by then
    };
    struct Step {
        size_t branch;
        Operation operation;
    };
    static bool is_signal(const Step& step);
    Operation in_run(const Operation& operation, uint64_t run);

    const Graph handle_ = new_handle<Graph>();
    // Nothing of these changes after close(), but what runs count.
    std::vector<Step> steps_;
    std::deque<Edge> edges_;
    std::vector<Branch> branches_;
    bool closed_ = false;
    std::vector<CallHost> at_end_;
    std::vector<std::shared_ptr<StreamQueue>> streams_;
    std::mutex launch_mutex_;
    uint64_t launched_ = 0; // runs; guarded by launch_mutex_
    std::atomic<uint64_t> ended_{0};
};

} // namespace gpurun::device::emulated
