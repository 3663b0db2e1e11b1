// Ends what transfers that wait for their neighbours wait too long for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/progress.hpp"

namespace partita {

/// A sender that may let complete partitions wait for their neighbours.
class Holding {
 public:
  /// What waits, as a number that differs from one such set to another; 0: nothing.
  virtual std::uint64_t held() = 0;
  /// Lets it leave, if it is still `seen`. A failure is the sender's own.
  virtual void end_hold(std::uint64_t seen) noexcept = 0;
  /// How many epochs it has opened: whether it is in use.
  virtual std::uint32_t epochs_opened() const = 0;

 protected:
  ~Holding() = default;

 private:
  friend class Holds;
  std::uint32_t seen_epochs_ = 0;
};

/// The progress thread looks at such senders every few microseconds while one of them is in use, and ends each wait
/// that outlasts a look: within 50 us in all.
class Holds {
 public:
  /// So long a wait may last that a look finds, before it is ended.
  static constexpr std::chrono::microseconds patience{4};

  /// Read in looks, and where they begin anew; not on the way of a mark that finds them taken.
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  explicit Holds(Progress& progress, Now now = [] { return Clock::now(); });
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  /// `sender` may hold from now on. Throws std::bad_alloc.
  void add(Holding& sender);
  /// It holds nothing any more. Blocks while a look is taken.
  void remove(Holding& sender);

  /// Whether a look follows soon: whoever holds something, and then sees true, need not care. Any thread.
  bool awake() const { return progress_.prompt(); }
  /// Whether the process can look at all: it has a thread and a core for it.
  bool possible() const;
  /// Asks for looks where the senders were idle for long. Any thread.
  void wake();

  /// The progress thread's, behind each nap. What it finds leaves `patience` later, at the next reading of the clock.
  void look();

 private:
  void end_what_lasts();
  bool in_use();

  /// So long nobody opens an epoch before the looks stop.
  static constexpr std::chrono::milliseconds idle_after{20};

  struct Waiting {
    Holding* sender;
    std::uint64_t held;
  };

  Progress& progress_;
  const Now now_;
  std::atomic<bool> looking_{false};  ///< prompt looks are asked for
  std::mutex mutex_;
  std::vector<Holding*> senders_;
  std::vector<Waiting> waiting_;  ///< of one look
  Clock::time_point last_use_;
};

}  // namespace partita
