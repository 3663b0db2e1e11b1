// kernel_probe.hpp on CPU threads that act as a block, and on memory that stands for a GPU's.
#include <atomic>
#include <memory>
#include <vector>

#include "kernel_probe.hpp"
#include "support/fake_gpu.hpp"

namespace {

class Threads {
 public:
  static constexpr auto until_all_wait = std::chrono::milliseconds(400);

  static void choose(int) {}
  unsigned char* allocate(std::size_t size_bytes) {
    return reinterpret_cast<unsigned char*>(
        partita::test::FakeGpu::instance().allocate(partita::test::mapped, size_bytes));
  }
  Outcome* outcome() { return &outcome_; }
  void launch(const Work& work) {
    running_ = threads;
    for (partita_u32 i = 0; i < threads; ++i) {
      std::thread([this, work, i] {
        {
          partita::device::CpuBlockThread self(block_, i);
          perform(work);
        }
        running_.fetch_sub(1, std::memory_order_release);
      }).detach();
    }
  }
  bool ended() const { return running_.load(std::memory_order_acquire) == 0; }
  void synchronize() {}
  int twelve_squared() { return 12 * 12; }

 private:
  static constexpr partita_u32 threads = 2;

  partita::device::CpuBlock block_{threads};
  std::atomic<partita_u32> running_{0};
  Outcome outcome_{-1, 0};
};

}  // namespace

int main(int argc, char** argv) {
  return run_probe<Threads>(argc, argv);
}
