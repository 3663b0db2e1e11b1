// What the engine looks at now and then, however much there is of it.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

#include "core/active_steps.hpp"
#include "core/look_budget.hpp"
#include "core/progress.hpp"

namespace partita {

/// Something that is looked at.
class LookedAt {
 public:
  LookedAt() = default;
  LookedAt(const LookedAt&) = delete;
  LookedAt& operator=(const LookedAt&) = delete;

 protected:
  ~LookedAt() = default;

 private:
  friend class LooksInTurn;
  /// Keeps it from ending, if nobody else has it now. Does not block.
  virtual bool try_to_hold() = 0;
  /// Looks at it, and lets it go. Returns whether something has happened to it.
  virtual bool look_and_let_go() noexcept = 0;

  LookedAt* previous_ = nullptr;  ///< in the ring; null outside of it
  LookedAt* next_ = nullptr;
};

/// A step of the engine takes a time that does not grow with the number of what is there: it looks at nothing where
/// nothing can have happened, and else at few of them, in turns. Any thread.
class LooksInTurn final : private ActiveStep {
 public:
  /// `is_needed`: whether something may have happened to one of them. Throws nothing; any thread.
  LooksInTurn(Progress& progress, std::function<bool()> is_needed)
      : progress_(progress), is_needed_(std::move(is_needed)) {}
  ~LooksInTurn() { progress_.dismiss(*this); }
  LooksInTurn(const LooksInTurn&) = delete;
  LooksInTurn& operator=(const LooksInTurn&) = delete;

  /// Not one that is there already.
  void add(LookedAt& added);
  /// Nothing, where it is not there. Whoever has it held may go on with it.
  void remove(LookedAt& removed);

 private:
  Outcome step() noexcept override;
  LookedAt* hold_next();

  Progress& progress_;
  const std::function<bool()> is_needed_;
  LookBudget budget_;  ///< under the engine's lock
  std::mutex mutex_;   ///< of the next ones, and of all links
  LookedAt* to_look_at_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace partita
