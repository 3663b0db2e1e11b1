// A CUDA graph of what one stream does.
#pragma once

#include "apps/support/cuda_memory.hpp"

namespace partita::apps {

class CudaGraph {
 public:
  /// Captures what `enqueue` puts into `stream`, and readies it for launches there. Throws what `enqueue` throws.
  template <class Enqueue>
  CudaGraph(const Stream& stream, const Enqueue& enqueue) : stream_(stream) {
    // Other threads of the process, the progress engine's for one, may do what they like meanwhile.
    PARTITA_APPS_CUDA(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    cudaGraph_t captured = nullptr;
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream.get(), &captured);
      cudaGraphDestroy(captured);
      throw;
    }
    PARTITA_APPS_CUDA(cudaStreamEndCapture(stream.get(), &captured));
    const cudaError_t instantiated = cudaGraphInstantiate(&graph_, captured, 0);
    cudaGraphDestroy(captured);
    check_cuda(instantiated, "cudaGraphInstantiate");
    PARTITA_APPS_CUDA(cudaGraphUpload(graph_, stream.get()));
    stream.synchronise();
  }
  ~CudaGraph() { cudaGraphExecDestroy(graph_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void launch() const { PARTITA_APPS_CUDA(cudaGraphLaunch(graph_, stream_.get())); }

 private:
  const Stream& stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace partita::apps
