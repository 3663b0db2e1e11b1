#include <cuda_runtime_api.h>

#include "contract/gpu_buffers.hpp"
#include "contract/gpu_program.hpp"
#include "memory/cuda/context.hpp"
#include "memory/cuda/stream.hpp"

namespace partita::test {

void choose_gpu() {
  must(cudaSetDevice(gpu()), "cudaSetDevice");
}

/// Members of fixtures are made before these can choose.
ProgramMemory::ProgramMemory(std::size_t size_bytes) {
  choose_gpu();
  void* memory = nullptr;
  must(cudaMalloc(&memory, size_bytes), "cudaMalloc");
  must(cudaMemset(memory, 0, size_bytes), "cudaMemset");
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  data_ = static_cast<std::byte*>(memory);
}
ProgramMemory::~ProgramMemory() {
  must(cudaFree(data_), "cudaFree");
}

struct ProgramStream::Impl {
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
};
ProgramStream::ProgramStream() : impl_(std::make_unique<Impl>()) {
  choose_gpu();
  must(cudaStreamCreateWithFlags(&impl_->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}
ProgramStream::~ProgramStream() {
  if (impl_->graph != nullptr) must(cudaGraphExecDestroy(impl_->graph), "cudaGraphExecDestroy");
  must(cudaStreamDestroy(impl_->stream), "cudaStreamDestroy");
}

void* ProgramStream::native() const {
  return impl_->stream;
}
void ProgramStream::drain() {
  must(cudaStreamSynchronize(impl_->stream), "cudaStreamSynchronize");
}
void ProgramStream::copy(void* to, const void* from, std::size_t size_bytes) {
  must(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, impl_->stream), "cudaMemcpyAsync");
}
void ProgramStream::capture(const std::function<void()>& body) {
  must(cudaStreamBeginCapture(impl_->stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  body();
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(impl_->stream, &graph), "cudaStreamEndCapture");
  if (impl_->graph != nullptr) must(cudaGraphExecDestroy(impl_->graph), "cudaGraphExecDestroy");
  must(cudaGraphInstantiate(&impl_->graph, graph, 0), "cudaGraphInstantiate");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
}
void ProgramStream::launch_graph() {
  must(cudaGraphLaunch(impl_->graph, impl_->stream), "cudaGraphLaunch");
}

std::unique_ptr<memory::Stream> stream_without_memory_operations() {
  static memory::cuda::Contexts contexts;
  return memory::cuda::make_stream(contexts, gpu(), false);
}

}  // namespace partita::test
