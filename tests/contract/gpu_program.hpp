// What a program does with its GPU, on CUDA and on the fake one alike (gpu_program_cuda.cpp, gpu_program_fake.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "memory/stream.hpp"

namespace partita::test {

/// This rank's GPU: ranks take turns, and share where there are fewer than ranks.
int gpu();
/// Makes it the calling thread's.
void choose_gpu();

/// Memory of that GPU, zeroed.
class ProgramMemory {
 public:
  explicit ProgramMemory(std::size_t size_bytes);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

class ProgramStream {
 public:
  ProgramStream();
  ~ProgramStream();
  ProgramStream(const ProgramStream&) = delete;
  ProgramStream& operator=(const ProgramStream&) = delete;

  /// What DeviceMemory::stream_of_program takes.
  void* native() const;
  void drain();
  /// Between memories of the GPU, in the stream's order.
  void copy(void* to, const void* from, std::size_t size_bytes);
  /// What `body` asks of the stream becomes a graph, in place of the one before.
  void capture(const std::function<void()>& body);
  void launch_graph();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stream of Partita's on a GPU that has no stream memory operations.
std::unique_ptr<memory::Stream> stream_without_memory_operations();

}  // namespace partita::test
