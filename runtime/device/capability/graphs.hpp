// Graphs: streams are captured, and what was captured runs again and again.
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"

#include <mutex>

namespace gpurun::device {

class Graphs {
  public:
    // What is enqueued in a captured stream does not run; launch() enqueues all of it, as often as it is called.
    // Device::is_captured() tells which streams are.
    virtual base::Result<void> begin_capture(Stream stream) = 0;
    // Of the capture under which `stream` is, its number: no other capture has it. kStream if it is not captured.
    virtual base::Result<uint64_t> capture_number(Stream stream) = 0;
    virtual base::Result<Graph> end_capture(Stream stream) = 0; // kStream if it is not captured, or that failed
    virtual base::Result<void> launch(Graph graph, Stream stream) = 0;
    // Owned if no run of a graph that launch() has enqueued is under way. While it is, none begins: launch() waits.
    virtual std::unique_lock<std::mutex> keep_graphs_still() = 0;
    // kArgument if it is none. Its runs come to their end. May wait for the device, whatever runs there, and no other
    // call of the process gets through meanwhile. Where it does, the next leaves it to Device::give_back().
    virtual base::Result<void> destroy_graph(Graph graph) = 0;
    virtual base::Result<void> destroy_graph_later(Graph graph) = 0;
    // `function` runs once, on any thread, when the graph that `captured` is captured into is gone, with all that was
    // made of it, and no longer runs; when the capture fails; or at once, if this call does. It must not call the
    // device.
    virtual base::Result<void> at_graph_end(Stream captured, void (*function)(void*), void* argument) = 0;

  protected:
    ~Graphs() = default; // it is a part of a Device
};

} // namespace gpurun::device
