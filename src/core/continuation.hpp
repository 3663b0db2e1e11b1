// What goes on by itself once something else has ended.
#pragma once

#include <atomic>

#include "core/error.hpp"
#include "core/progress.hpp"

namespace partita {

/// Waits, when it is armed, for what the class derived from it says, and then goes on, once, on whichever thread makes
/// progress: arrive → reduce → mark the next one, without a thread of the program. It is a part of its owner and
/// allocates nothing. Its owner cancels it before what it uses goes.
class Continuation : private ActiveStep {
 public:
  explicit Continuation(Progress& progress) : progress_(progress) {}

  /// It does not go on any more. Blocks while another thread takes steps; once this returns, go_on() does not run. Not
  /// while another thread arms it. Within go_on() or failed() it has no effect.
  void cancel();
  /// Whether it waits.
  bool armed() const { return armed_.load(std::memory_order_acquire); }

 protected:
  ~Continuation() = default;
  /// It waits from now on. Any thread, in go_on() too; not while it waits already.
  void arm();

 private:
  /// Whether what it waits for has come. Under the engine's lock, in each of its steps; makes progress. Throws Error
  /// where it can never come.
  virtual bool reached() = 0;
  /// Under the engine's lock, no longer armed: it may be armed again, or end. What it throws goes to failed().
  virtual void go_on() = 0;
  /// The owner hears why it did not go on, or could not. Likewise.
  virtual void failed(const Error& error) noexcept = 0;

  Outcome step() noexcept final;
  bool proceed();

  Progress& progress_;
  std::atomic<bool> armed_{false};
};

}  // namespace partita
