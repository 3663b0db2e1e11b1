// Mutual exclusion whose holder can be handed work by those it keeps out.
#pragma once

#include <atomic>

namespace partita::link::ucx {

/// A lock with one guarantee that std::mutex lacks: its operations and other sequentially consistent ones have a single
/// order. So a thread that leaves work behind and then fails to enter knows that the holder, who looks
/// for work after leaving, will see it.
class Gate {
 public:
  bool try_enter() { return state_.exchange(closed, std::memory_order_seq_cst) == open; }

  /// Blocks; for setup, not for the paths of data.
  void enter() {
    while (!try_enter()) state_.wait(closed, std::memory_order_relaxed);
  }

  void leave() {
    state_.store(open, std::memory_order_seq_cst);
    state_.notify_one();
  }

 private:
  static constexpr int open = 0;
  static constexpr int closed = 1;
  std::atomic<int> state_{open};
};

}  // namespace partita::link::ucx
