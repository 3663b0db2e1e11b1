#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "core/call_stream.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/paced_stream.hpp"

namespace partita::test {

struct PacedStream::Impl {
  std::unique_ptr<FakeWorker> own;
  void* native;
  FakeWorker& worker;
  std::atomic<bool> is_held{false};
};

PacedStream::PacedStream(StreamKind kind) {
  auto own = kind == StreamKind::own ? std::make_unique<FakeWorker>() : nullptr;
  const CallStream named = kind == StreamKind::legacy ? CallStream::legacy : CallStream::per_thread;
  void* const native = own != nullptr ? own.get() : reinterpret_cast<void*>(named);
  impl_.reset(new Impl{std::move(own), native, FakeGpu::instance().worker_of(native)});
}

PacedStream::~PacedStream() {
  release();
  drain();
}

std::string PacedStream::name() const {
  return text_of(static_cast<CallStream>(reinterpret_cast<std::uintptr_t>(impl_->native)));
}

void PacedStream::pause(std::chrono::milliseconds length) {
  impl_->worker.ask([=] { std::this_thread::sleep_for(length); });
}

void PacedStream::hold() {
  impl_->is_held = true;
  impl_->worker.ask([this] {
    while (impl_->is_held) std::this_thread::sleep_for(std::chrono::microseconds(100));
  });
}

void PacedStream::release() {
  impl_->is_held = false;
}

void PacedStream::copy(void* to, const void* from, std::size_t size_bytes) {
  impl_->worker.ask([=] { std::memcpy(to, from, size_bytes); });
}

void PacedStream::drain() {
  impl_->worker.drain();
}

void PacedStream::begin_capture() {
  impl_->worker.begin_capture();
}

void PacedStream::end_capture() {
  impl_->worker.end_capture();
}

}  // namespace partita::test
