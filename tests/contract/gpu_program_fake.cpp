#include <cstring>
#include <vector>

#include "contract/gpu_program.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"

namespace partita::test {

int gpu() {
  return mapped;
}
void choose_gpu() {}

ProgramMemory::ProgramMemory(std::size_t size_bytes) : data_(FakeGpu::instance().allocate(mapped, size_bytes)) {}
ProgramMemory::~ProgramMemory() {
  FakeGpu::instance().free(data_);
}

struct ProgramStream::Impl {
  FakeWorker worker;
  std::vector<FakeWorker::Operation> graph;
};
ProgramStream::ProgramStream() : impl_(std::make_unique<Impl>()) {}
ProgramStream::~ProgramStream() = default;

void* ProgramStream::native() const {
  return &impl_->worker;
}
void ProgramStream::drain() {
  impl_->worker.drain();
}
void ProgramStream::copy(void* to, const void* from, std::size_t size_bytes) {
  impl_->worker.ask([=] { std::memcpy(to, from, size_bytes); });
}
void ProgramStream::capture(const std::function<void()>& body) {
  impl_->worker.begin_capture();
  body();
  impl_->graph = impl_->worker.end_capture();
}
void ProgramStream::launch_graph() {
  for (const auto& operation : impl_->graph) impl_->worker.ask(operation);
}

/// It has none of either kind.
std::unique_ptr<memory::Stream> stream_without_memory_operations() {
  return make_fake_stream(mapped);
}

}  // namespace partita::test
