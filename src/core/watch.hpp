// Every wait is watched: it explains itself when it takes long, and ends when it takes too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "core/settings.hpp"
#include "core/world.hpp"

namespace partita {

/// The wait itself failed (time limit, dead rank), not what was waited for.
class WaitError : public Error {
 public:
  using Error::Error;
};

/// What a watched wait can say about itself.
class Waiting {
 public:
  virtual ~Waiting() = default;
  /// What is waited for and how far it has come; a sentence.
  virtual std::string explain() const = 0;
  /// The world rank that must act, or -1.
  virtual int waits_for() const = 0;
  /// A number that changes when what is waited for gets on; may take as long as explain().
  virtual std::uint64_t how_far() const { return 0; }
};

/// What a wait that takes long leads to.
class WaitLimits {
 public:
  using Clock = std::chrono::steady_clock;

  /// The wait begins.
  void begin(const Settings& settings, Clock::time_point now);
  /// It has taken `waited_s` so far. Throws WaitError if the time limit has passed or the rank that must act has ended.
  void check(const Settings& settings, World& world, const Waiting& waiting, Clock::time_point now, double waited_s);

 private:
  Clock::time_point next_probe_{};
  double next_warning_s_ = 0;
};

/// Belongs to one wait. look() is called once a poll and reads the clock only now and then: often enough that a wait
/// keeps its time limit where polls are slow, and where the core, once given away, comes back late.
class Watch {
 public:
  Watch(const Settings& settings, World& world) : settings_(settings), world_(world) {}

  /// `yielded`: since the last poll the core was given away. Throws Error if the time limit has passed or the rank that
  /// must act has ended.
  void look(const Waiting& waiting, bool yielded) {
    if (yielded || --polls_to_look_ == 0) look_at_clock(waiting);
  }

 private:
  using Clock = WaitLimits::Clock;
  static constexpr int first_polls = 64;
  static constexpr int most_polls = 1024;

  void look_at_clock(const Waiting& waiting);
  void plan_next_look(Clock::duration since_last);

  const Settings& settings_;
  World& world_;
  int polls_between_looks_ = first_polls;
  int polls_to_look_ = first_polls;
  Clock::time_point begin_{};
  Clock::time_point last_look_{};
  WaitLimits limits_;
};

}  // namespace partita
