// A CUDA graph of what one stream does.
#pragma once

#include <memory>
#include <type_traits>

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
    cudaGraphExec_t made = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&made, captured, 0);
    graph_.reset(made);
    cudaGraphDestroy(captured);
    check_cuda(instantiated, "cudaGraphInstantiate");
    PARTITA_APPS_CUDA(cudaGraphUpload(made, stream.get()));
    stream.synchronise();
  }

  void launch() const { PARTITA_APPS_CUDA(cudaGraphLaunch(graph_.get(), stream_.get())); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };

  const Stream& stream_;
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> graph_;
};

}  // namespace partita::apps
