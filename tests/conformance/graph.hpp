// What the tests of graphs and of channels share.
#pragma once

#include "subject.hpp"

#include "device/capability/graphs.hpp"

#include <atomic>

namespace gpurun::conformance {

// What `enqueue` puts into a captured stream, to be launched. All graphs of a test are made before anything waits on
// the device: making one may wait for it.
class Graph {
  public:
    template <typename Enqueue>
    Graph(device::Stream stream, const Enqueue& enqueue) : graph_(capture(stream, enqueue)) {}
    ~Graph() {
        if (graph_.native != nullptr)
            (void)subject().graphs()->destroy_graph(graph_);
    }
    Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, device::Graph{})) {}
    Graph& operator=(Graph&&) = delete;

    void launch(device::Stream stream) const { REQUIRE_OK(subject().graphs()->launch(graph_, stream)); }
    void destroy() { REQUIRE_OK(subject().graphs()->destroy_graph(std::exchange(graph_, device::Graph{}))); }
    void destroy_later() {
        REQUIRE_OK(subject().graphs()->destroy_graph_later(std::exchange(graph_, device::Graph{})));
    }

  private:
    template <typename Enqueue>
    static device::Graph capture(device::Stream stream, const Enqueue& enqueue) {
        REQUIRE_OK(subject().graphs()->begin_capture(stream));
        enqueue(stream);
        return must(subject().graphs()->end_capture(stream));
    }

    device::Graph graph_;
};

// How often at_graph_end() has called.
class EndCount {
  public:
    base::Result<void> watch(device::Stream captured) {
        return subject().graphs()->at_graph_end(
            captured, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &count_);
    }
    int calls() const { return count_; }

  private:
    std::atomic<int> count_{0};
};

} // namespace gpurun::conformance
