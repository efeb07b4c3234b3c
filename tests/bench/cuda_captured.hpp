// captured.hpp for streams of the CUDA runtime, in which there is nothing of gpurun's.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace gpurun::bench {

class CudaCaptured {
  public:
    // What `enqueue` enqueues in the stream.
    CudaCaptured(cudaStream_t stream, const std::function<void()>& enqueue);
    ~CudaCaptured(); // after its last run
    CudaCaptured(const CudaCaptured&) = delete;
    CudaCaptured& operator=(const CudaCaptured&) = delete;

    void launch(cudaStream_t stream) const;

  private:
    cudaGraphExec_t runs_ = nullptr;
};

} // namespace gpurun::bench
