#include "cuda_captured.hpp"

#include "cuda_call.hpp"

namespace gpurun::bench {

CudaCaptured::CudaCaptured(cudaStream_t stream, const std::function<void()>& enqueue) {
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue();
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&runs_, graph, 0));
    MUST(cudaGraphDestroy(graph));
}

CudaCaptured::~CudaCaptured() { MUST(cudaGraphExecDestroy(runs_)); }

void CudaCaptured::launch(cudaStream_t stream) const { MUST(cudaGraphLaunch(runs_, stream)); }

} // namespace gpurun::bench
