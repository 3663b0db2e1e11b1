// Every wait is watched: it explains itself when it takes long, and ends when it takes too long.
#pragma once

#include <chrono>
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
};

/// Belongs to one wait. look() is called once a poll and reads the clock only now and then.
class Watch {
 public:
  Watch(const Settings& settings, World& world) : settings_(settings), world_(world) {}

  /// Throws Error if the time limit has passed or the rank that must act has ended.
  void look(const Waiting& waiting) {
    if ((++polls_ & 1023) == 0) look_at_clock(waiting);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void look_at_clock(const Waiting& waiting);

  const Settings& settings_;
  World& world_;
  unsigned polls_ = 0;
  Clock::time_point begin_{};
  Clock::time_point next_probe_{};
  double next_warning_s_ = 0;
};

}  // namespace partita
