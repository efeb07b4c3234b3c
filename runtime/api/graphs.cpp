// Graphs: capturing a stream of the rank's device, and running what was captured.
#include "api/call.hpp"
#include "base/format.hpp"

namespace gpurun::api {

namespace {

using base::Result;
using base::Status;

Result<device::Graphs*> graphs_of(Runtime& runtime) {
    return need(runtime, &device::Device::graphs, device::Capability::kGraphs,
                "make the calls in a stream that is not captured");
}

Result<void> begin_capture(gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_ASSIGN(device::Graphs * graphs, graphs_of(*found));
    GPURUN_ASSIGN(const device::Stream in, device_stream(*found, stream));
    return graphs->begin_capture(in);
}

Result<void> end_capture(gpurun_stream stream, gpurun_graph* ret_graph) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    GPURUN_TRY(check_output(ret_graph, "ret_graph"));
    if (stream == GPURUN_HOST)
        return base::error(Status::kStream,
                           "GPURUN_HOST cannot be captured: pass the stream of gpurun_capture_begin()");
    GPURUN_ASSIGN(device::Graphs * graphs, graphs_of(*found));
    GPURUN_ASSIGN(const device::Graph graph, graphs->end_capture(device::Stream(stream)));
    *ret_graph = graph.native;
    return {};
}

Result<void> launch(gpurun_graph graph, gpurun_stream stream) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (graph == nullptr)
        return base::error(Status::kArgument,
                           "graph is NULL: pass one of gpurun_capture_end() or cudaGraphInstantiate()");
    GPURUN_ASSIGN(device::Graphs * graphs, graphs_of(*found));
    GPURUN_ASSIGN(const CheckedStream checked, any_stream(*found, stream));
    return graphs->launch(device::Graph(graph), checked.stream);
}

Result<void> destroy(gpurun_graph graph) {
    GPURUN_ASSIGN(Runtime * found, runtime());
    if (graph == nullptr)
        return {};
    GPURUN_TRY(graphs_of(*found));
    return found->engine().memory().destroy(device::Graph(graph));
}

} // namespace

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_capture_begin(gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::begin_capture(stream));
}

gpurun_status gpurun_capture_end(gpurun_stream stream, gpurun_graph* ret_graph) {
    const api::CallScope call(__func__);
    return api::report(api::end_capture(stream, ret_graph));
}

gpurun_status gpurun_graph_launch(gpurun_graph graph, gpurun_stream stream) {
    const api::CallScope call(__func__);
    return api::report(api::launch(graph, stream));
}

gpurun_status gpurun_graph_destroy(gpurun_graph graph) {
    const api::CallScope call(__func__);
    return api::report(api::destroy(graph));
}

} // extern "C"
