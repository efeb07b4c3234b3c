// Graphs: captured streams made runnable, and whoever waits for a graph's end.
#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"

namespace gpurun::device::cuda {

namespace {

CUgraphExec native(Graph graph) { return graph.native; }

base::Error no_such_graph(Graph graph) {
    return base::error(base::Status::kArgument, "{} is not a graph of gpurun_capture_end(), or it was destroyed before",
                       graph.address());
}

} // namespace

base::Result<void> CudaDevice::begin_capture(Stream stream) {
    const auto current = enter();
    return driver_.check(driver_.cuStreamBeginCapture(cuda::native(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "cuStreamBeginCapture", base::Status::kStream);
}

base::Result<CudaDevice::Capture> CudaDevice::capture_of(Stream stream) const {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    Capture capture;
    GPURUN_TRY(driver_.check(driver_.cuStreamGetCaptureInfo(cuda::native(stream), &status, &capture.number,
                                                            &capture.graph, nullptr, nullptr),
                             "cuStreamGetCaptureInfo", base::Status::kStream));
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return base::error(base::Status::kStream, "stream {} is not being captured", stream.address());
    return capture;
}

base::Result<uint64_t> CudaDevice::capture_number(Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const Capture capture, capture_of(stream));
    return capture.number;
}

base::Result<Graph> CudaDevice::end_capture(Stream stream) {
    const auto current = enter_beside_capture();
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    GPURUN_TRY(driver_.check(driver_.cuStreamIsCapturing(cuda::native(stream), &capturing), "cuStreamIsCapturing",
                             base::Status::kStream));
    if (capturing == CU_STREAM_CAPTURE_STATUS_NONE)
        return base::error(base::Status::kStream, "stream {} is not being captured", stream.address());
    CUgraph graph = nullptr;
    GPURUN_TRY(driver_.check(driver_.cuStreamEndCapture(cuda::native(stream), &graph), "cuStreamEndCapture",
                             base::Status::kStream));
    if (graph == nullptr)
        return base::error(base::Status::kStream, "the capture of stream {} has failed, by an earlier call",
                           stream.address());
    CUgraphExec executable = nullptr;
    auto made =
        driver_.check(driver_.cuGraphInstantiateWithFlags(&executable, graph, 0), "cuGraphInstantiateWithFlags");
    GPURUN_TRY(driver_.check(driver_.cuGraphDestroy(graph), "cuGraphDestroy"));
    GPURUN_TRY(std::move(made));
    graphs_.insert(executable);
    return Graph{executable};
}

base::Result<void> CudaDevice::launch(Graph graph, Stream stream) {
    const auto current = enter_beside_capture();
    return graph_runs_.launch(native(graph), cuda::native(stream));
}

std::unique_lock<std::mutex> CudaDevice::keep_graphs_still() {
    const auto current = enter_beside_capture();
    return graph_runs_.keep_still();
}

base::Result<void> CudaDevice::destroy_graph(Graph graph) {
    if (!graphs_.erase(graph.native))
        return no_such_graph(graph);
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuGraphExecDestroy(native(graph)), "cuGraphExecDestroy");
}

base::Result<void> CudaDevice::destroy_graph_later(Graph graph) {
    if (!graphs_.erase(graph.native))
        return no_such_graph(graph);
    graphs_later_.insert(graph.native);
    return {};
}

// A user object of the graph: clones and executables of the graph hold it too, and so do their runs.
base::Result<void> CudaDevice::at_graph_end(Stream captured, void (*function)(void*), void* argument) {
    const auto current = enter();
    auto capture = capture_of(captured);
    if (!capture) {
        function(argument);
        return std::move(capture).error();
    }
    CUuserObject object = nullptr;
    auto made =
        driver_.check(driver_.cuUserObjectCreate(&object, argument, function, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                      "cuUserObjectCreate");
    if (!made) {
        function(argument);
        return made;
    }
    auto retained = driver_.check(driver_.cuGraphRetainUserObject(capture->graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
                                  "cuGraphRetainUserObject");
    if (!retained)
        (void)driver_.cuUserObjectRelease(object, 1); // calls it
    return retained;
}

} // namespace gpurun::device::cuda
