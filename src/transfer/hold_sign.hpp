// What a look sees of a sender that may hold something, without a touch of the sender.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/backoff.hpp"

namespace partita {

/// Whether a sender may hold something now, and how many epochs it has opened: one word. A look reads those of all
/// senders every few microseconds, and goes on to a sender itself only where the word says so. Else it would take the
/// cache lines of each of them from the core that marks, which has to fetch them back one by one. The word is the lock
/// as well that keeps a look within one epoch.
class HoldSign {
 public:
  using Word = std::atomic<std::uint32_t>;

  /// What a word said.
  class Seen {
   public:
    explicit Seen(std::uint32_t word) : word_(word) {}
    bool may_hold() const { return (word_ & states) != closed; }
    std::uint32_t epoch() const { return word_ / one_epoch; }

   private:
    std::uint32_t word_;
  };

  HoldSign() = default;
  explicit HoldSign(Word& word) : word_(&word) {}
  Word* word() const { return word_; }

  /// The sender opens an epoch, which is ready for marks at opened(): no look comes in between. Waits for one that is
  /// under way. In one order with Progress::prompt.
  void open() {
    std::uint32_t seen = word_->load(std::memory_order_relaxed);
    while ((seen & states) == taken ||
           !word_->compare_exchange_weak(seen, (seen & ~states) + one_epoch + taken, std::memory_order_seq_cst,
                                         std::memory_order_relaxed)) {
      cpu_relax();
      seen = word_->load(std::memory_order_relaxed);
    }
  }
  void opened() { give_back(); }
  /// All of the open epoch has left, and the next one opens after this. Without effect while a look is under way: the
  /// next one comes in vain then.
  void close() {
    std::uint32_t seen = word_->load(std::memory_order_relaxed);
    if ((seen & states) != open_) return;
    word_->compare_exchange_strong(seen, seen & ~states, std::memory_order_relaxed);
  }

  /// A look's. In one order with open().
  Seen read() const { return Seen(word_->load(std::memory_order_seq_cst)); }
  /// Keeps the sender within its open epoch until give_back(). False, without that, if it holds nothing.
  bool take() {
    for (;;) {
      std::uint32_t seen = word_->load(std::memory_order_relaxed);
      if ((seen & states) == closed) return false;
      if ((seen & states) == open_ &&
          word_->compare_exchange_weak(seen, (seen & ~states) + taken, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
      cpu_relax();
    }
  }
  void give_back() {
    word_->store((word_->load(std::memory_order_relaxed) & ~states) + open_, std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t closed = 0;
  static constexpr std::uint32_t open_ = 1;
  static constexpr std::uint32_t taken = 2;  ///< by a look, or by the sender while it opens an epoch
  static constexpr std::uint32_t states = 3;
  static constexpr std::uint32_t one_epoch = 4;

  Word* word_ = nullptr;
};

}  // namespace partita
