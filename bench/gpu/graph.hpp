// A CUDA graph of what one stream does.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/memory.hpp"

namespace partita::bench::gpu {

class Graph {
 public:
  /// Captures what `enqueue` puts into `stream`, and readies it for launches there.
  template <class Enqueue>
  Graph(cudaStream_t stream, const Enqueue& enqueue) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    enqueue();
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
    const cudaError_t instantiated = cudaGraphInstantiate(&graph_, captured, 0);
    check(cudaGraphDestroy(captured), "cudaGraphDestroy");
    check(instantiated, "cudaGraphInstantiate");
    check(cudaGraphUpload(graph_, stream), "cudaGraphUpload");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  ~Graph() { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(graph_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace partita::bench::gpu
