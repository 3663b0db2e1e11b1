// Ends what transfers that wait for their neighbours wait too long for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/progress.hpp"
#include "transfer/hold_sign.hpp"

namespace partita {

/// A sender that may let complete partitions wait for their neighbours.
class Holding {
 public:
  /// What waits, as a number that differs from one such set of an epoch to another; 0: nothing. The sign is taken.
  virtual std::uint64_t held() const = 0;
  /// Lets it leave. The sign is taken. A failure is the sender's own.
  virtual void end_hold() noexcept = 0;

 protected:
  ~Holding() = default;
  /// Once Holds has had the sender in its list.
  HoldSign& sign() { return sign_; }

 private:
  friend class Holds;
  HoldSign sign_;
};

/// The progress thread looks at the signs of such senders every few microseconds while one of them is in use, and ends
/// each wait that outlasts a look: within 50 us in all.
class Holds {
 public:
  /// So long a wait may last that a look finds, before it is ended.
  static constexpr std::chrono::microseconds patience{4};

  explicit Holds(Progress& progress);
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  /// `sender`, whose epochs this thread opens, may hold from now on. Throws std::bad_alloc.
  void add(Holding& sender);
  /// It holds nothing any more. Blocks while a look is taken.
  void remove(Holding& sender);
  /// It is removed, and ends.
  void forget(Holding& sender);

  /// Whether a look follows soon: whoever holds something, and then sees true, need not care. Any thread.
  bool awake() const { return progress_.prompt(); }
  /// Whether the process can look at all: it has a thread and a core for it.
  bool possible() const;
  /// Asks for looks where the senders were idle for long. Any thread.
  void wake();

 private:
  void look();
  bool find_what_waits();
  void end_what_lasts();
  void give_sign(Holding& sender);

  /// So long nobody opens an epoch before the looks stop.
  static constexpr std::chrono::milliseconds idle_after{20};

  struct Listed {
    Holding* sender;
    std::uint32_t epoch;  ///< when it was looked at last
  };
  struct Waiting {
    Holding* sender;
    std::uint32_t epoch;
    std::uint64_t held;
  };
  /// Signs of senders whose epochs one thread opens: they share a cache line, and no other thread writes to it.
  struct alignas(64) SignLine {
    std::array<HoldSign::Word, 16> words{};
  };
  struct ThreadsLine {
    std::thread::id thread;
    std::unique_ptr<SignLine> line;
    std::uint32_t used;  ///< words, a bit each
  };

  Progress& progress_;
  std::atomic<bool> looking_{false};  ///< prompt looks are asked for
  std::mutex mutex_;
  std::vector<ThreadsLine> lines_;
  std::vector<Listed> senders_;
  std::vector<Waiting> waiting_;  ///< of one look
  std::chrono::steady_clock::time_point last_use_;
};

}  // namespace partita
