#include "support/paced_stream.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "support/gpu_memory.hpp"

namespace partita::test {
namespace {

void must(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

}  // namespace

struct PacedStream::Impl {
  StreamKind kind;
  cudaStream_t stream = nullptr;
  std::atomic<bool> is_held{false};
  std::chrono::milliseconds pause{};
};

PacedStream::PacedStream(StreamKind kind) : impl_(new Impl{kind}) {
  must(cudaSetDevice(own_gpu()), "cudaSetDevice");
  switch (kind) {
    case StreamKind::own:
      must(cudaStreamCreateWithFlags(&impl_->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      break;
    case StreamKind::legacy:
      impl_->stream = cudaStreamLegacy;
      break;
    case StreamKind::per_thread:
      impl_->stream = cudaStreamPerThread;
      break;
  }
}

PacedStream::~PacedStream() {
  release();
  cudaStreamSynchronize(impl_->stream);
  if (impl_->kind == StreamKind::own) cudaStreamDestroy(impl_->stream);
}

std::string PacedStream::name() const {
  if (impl_->kind == StreamKind::legacy) return "legacy";
  if (impl_->kind == StreamKind::per_thread) return "per-thread";
  char text[32];
  std::snprintf(text, sizeof text, "%p", static_cast<void*>(impl_->stream));
  return text;
}

/// One length at a time: the tests have no more.
void PacedStream::pause(std::chrono::milliseconds length) {
  impl_->pause = length;
  must(cudaLaunchHostFunc(
           impl_->stream, [](void* impl) { std::this_thread::sleep_for(static_cast<const Impl*>(impl)->pause); },
           impl_.get()),
       "cudaLaunchHostFunc");
}

void PacedStream::hold() {
  impl_->is_held = true;
  const auto wait = [](void* impl) {
    while (static_cast<const Impl*>(impl)->is_held) std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
  must(cudaLaunchHostFunc(impl_->stream, wait, impl_.get()), "cudaLaunchHostFunc");
}

void PacedStream::release() {
  impl_->is_held = false;
}

void PacedStream::copy(void* to, const void* from, std::size_t size_bytes) {
  must(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, impl_->stream), "cudaMemcpyAsync");
}

void PacedStream::drain() {
  must(cudaStreamSynchronize(impl_->stream), "cudaStreamSynchronize");
}

void PacedStream::begin_capture() {
  must(cudaStreamBeginCapture(impl_->stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
}

void PacedStream::end_capture() {
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(impl_->stream, &graph), "cudaStreamEndCapture");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

}  // namespace partita::test
