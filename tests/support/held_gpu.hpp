// A GPU in one process, without CUDA: its memory is host memory in truth, and its copies wait until the test lets them
// be made.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include "core/error.hpp"
#include "support/fake_transfer.hpp"
#include "support/word_writes.hpp"

namespace partita::test {

class HeldGpu final : public NoDeviceMemory {
 public:
  /// So many copies wait.
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(asked_, [](const Asked& asked) { return asked.size > 0; }));
  }
  /// Makes the oldest `copies` of them, with the words behind them.
  void let(std::size_t copies) {
    const std::lock_guard lock(mutex_);
    while (!asked_.empty() && (asked_.front().size == 0 || copies-- > 0)) make_oldest();
  }
  void let_all() { let(waiting()); }
  /// Copies are made at once from now on.
  void let_freely() {
    let_all();
    freely_ = true;
  }
  /// What waits is never made, as when a kernel has failed.
  void break_down() {
    const std::lock_guard lock(mutex_);
    asked_.clear();
    broken_ = true;
  }
  int drained() const { return drained_; }

  std::byte* device_pointer(int, std::byte* host) override { return host; }
  std::unique_ptr<memory::CopyQueue> make_copy_queue(int) override { return std::make_unique<Queue>(*this); }
  void make_current(int) override {}

 private:
  /// A copy, or a word where it has no size.
  struct Asked {
    const void* queue;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t size = 0;
    std::optional<memory::WordWrite> word = std::nullopt;
  };

  class Queue final : public memory::CopyQueue {
   public:
    explicit Queue(HeldGpu& gpu) : gpu_(gpu) {}
    void copy(void* to, const void* from, std::size_t size_bytes) override {
      gpu_.ask({this, static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size_bytes});
    }
    void write(std::span<const memory::WordWrite> writes) override {
      for (const memory::WordWrite& write : writes) gpu_.ask({.queue = this, .word = write});
    }
    void follow(CopyQueue&) override {}  // all queues are one
    bool idle() override { return gpu_.is_idle(this); }
    void drain() override { gpu_.drain(this); }

   private:
    HeldGpu& gpu_;
  };

  void ask(Asked asked) {
    const std::lock_guard lock(mutex_);
    if (broken_) throw Error(ErrorClass::other, "the fake GPU is broken");
    asked_.push_back(asked);
    if (freely_) make_oldest();
  }
  void make_oldest() {
    make(asked_.front());
    asked_.pop_front();
  }
  static void make(const Asked& asked) {
    if (asked.word) return test::make(*asked.word);
    std::memcpy(asked.to, asked.from, asked.size);
  }
  bool is_idle(const void* queue) {
    const std::lock_guard lock(mutex_);
    if (broken_) throw Error(ErrorClass::other, "the fake GPU is broken");
    return std::ranges::none_of(asked_, [&](const Asked& asked) { return asked.queue == queue; });
  }
  /// The GPU is not held for ever.
  void drain(const void* queue) {
    const std::lock_guard lock(mutex_);
    ++drained_;
    for (const Asked& asked : asked_) {
      if (asked.queue == queue) make(asked);
    }
    std::erase_if(asked_, [&](const Asked& asked) { return asked.queue == queue; });
  }

  std::mutex mutex_;
  std::deque<Asked> asked_;  ///< of all queues
  std::atomic<bool> freely_{false};
  bool broken_ = false;
  std::atomic<int> drained_{0};
};

}  // namespace partita::test
