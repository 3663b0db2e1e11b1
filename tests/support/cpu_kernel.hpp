// CPU threads as the blocks of a kernel's grid.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "partita/device/impl/platform.cuh"

namespace partita::test {

/// The blocks of a rank's grid.
struct GridShape {
  unsigned blocks = 1;
  unsigned threads = 1;
};

/// Threads that are the blocks of a rank's grid, each of which runs `body(thread of the grid)`.
class CpuKernel {
 public:
  CpuKernel(const GridShape& shape, const std::function<void(unsigned)>& body, bool is_resident = true) {
    for (unsigned b = 0; b < shape.blocks; ++b) blocks_.push_back(std::make_unique<device::CpuBlock>(shape.threads));
    for (unsigned t = 0; t < shape.blocks * shape.threads; ++t) {
      threads_.emplace_back([this, shape, body, is_resident, t] {
        const unsigned block = t / shape.threads;
        const device::CpuBlockThread self(*blocks_[block], t % shape.threads, {block, shape.blocks, is_resident});
        body(t);
      });
    }
  }
  ~CpuKernel() { end(); }
  CpuKernel(const CpuKernel&) = delete;
  CpuKernel& operator=(const CpuKernel&) = delete;
  void end() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  std::vector<std::unique_ptr<device::CpuBlock>> blocks_;
  std::vector<std::thread> threads_;
};

}  // namespace partita::test
