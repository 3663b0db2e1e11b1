// The receives that may get an offer, while the MPI has them.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>

#include "core/active_steps.hpp"
#include "core/progress.hpp"
#include "two_sided/unmet_offers.hpp"

namespace partita {

/// One of them.
class PostedReceive {
 public:
  PostedReceive() = default;
  PostedReceive(const PostedReceive&) = delete;
  PostedReceive& operator=(const PostedReceive&) = delete;

 protected:
  ~PostedReceive() = default;

 private:
  friend class PostedReceives;
  /// Keeps it from ending, if nobody else has it now. Does not block.
  virtual bool try_to_hold() = 0;
  /// Asks the MPI, once, and lets it go. Returns whether it has got something.
  virtual bool look_and_let_go() noexcept = 0;

  PostedReceive* previous_ = nullptr;  ///< in the ring; null outside of it
  PostedReceive* next_ = nullptr;
};

/// Has the engine ask the MPI for them, so that no sender of an offer waits for this rank's next call. A step of the
/// engine takes a time that does not grow with their number: it asks for none while no offer is on its way, and else
/// for few, in turns. Who waits for one asks for it itself. Any thread.
class PostedReceives final : private ActiveStep {
 public:
  PostedReceives(Progress& progress, const UnmetOffers& unmet) : progress_(progress), unmet_(unmet) {}
  ~PostedReceives() { progress_.dismiss(*this); }
  PostedReceives(const PostedReceives&) = delete;
  PostedReceives& operator=(const PostedReceives&) = delete;

  /// Not one that is there already.
  void add(PostedReceive& receive);
  /// Nothing, where it is not there. Whoever has it held may go on with it.
  void remove(PostedReceive& receive);

 private:
  using Clock = std::chrono::steady_clock;

  Outcome step() noexcept override;
  std::size_t looks_now();
  PostedReceive* hold_next();

  Progress& progress_;
  const UnmetOffers& unmet_;
  Clock::time_point last_looks_{};  ///< under the engine's lock
  std::mutex mutex_;                ///< of the next ones, and of all links
  PostedReceive* to_look_at_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace partita
