// What the host's puts between GPUs are made of: copies on a stream, and behind them what announces them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/epoch.hpp"
#include "link/plan.hpp"
#include "memory/device.hpp"

namespace partita::link::direct {

/// One after the other, the copies of a lane and the words that announce them. One thread at a time.
class CopyLane {
 public:
  /// `done`: a word of host memory, no_epoch; `done_on_gpu`: as the GPU addresses it. The word behind it is the lane's,
  /// too.
  CopyLane(memory::DeviceMemory& memory, int device, Epoch* done, Epoch* done_on_gpu)
      : queue_(memory.make_copy_queue(device)), done_(*done), done_on_gpu_(done_on_gpu) {}

  void copy(std::byte* to, const std::byte* from, const Range& bytes) {
    if (bytes.size() > 0) queue_->copy(to + bytes.begin, from + bytes.begin, static_cast<std::size_t>(bytes.size()));
  }
  /// What comes behind waits for what `other` was asked for so far.
  void follow(CopyLane& other) { queue_->follow(*other.queue_); }
  /// Who sees at system scope what is copied behind it sees what was copied before.
  void fence() { queue_->write(done_on_gpu_ + 1, issued_); }
  /// Behind the copies so far; adds the lane's own word to `writes`. finished() waits for it.
  void announce(std::vector<memory::WordWrite>& writes) {
    const Epoch announced = next(issued_);
    writes.push_back({done_on_gpu_, announced});  // pairs with passed()
    queue_->write(writes);
    awaited_ = issued_ = announced;
  }
  /// A place behind the copies so far, for which finished() does not wait.
  Epoch place() {
    queue_->write(done_on_gpu_, next(issued_));  // pairs with passed()
    return issued_ = next(issued_);
  }
  /// Whether the lane has come to `place`, of place(); to no_epoch it always has.
  bool passed(Epoch place) const { return place == no_epoch || reached(done_.load(std::memory_order_acquire), place); }
  bool finished() const { return passed(awaited_); }
  /// Throws Error where a copy has failed.
  void check() { queue_->idle(); }
  void drain() { queue_->drain(); }

 private:
  std::unique_ptr<memory::CopyQueue> queue_;
  std::atomic_ref<Epoch> done_;
  Epoch* done_on_gpu_;
  Epoch issued_ = no_epoch;   ///< the newest announcement or place
  Epoch awaited_ = no_epoch;  ///< the newest announcement
};

}  // namespace partita::link::direct
