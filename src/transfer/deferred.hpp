// The transfers that wait for their receivers, so that the progress engine need not look at all others.
#pragma once

#include <atomic>

namespace partita {

class Progress;

/// A sender with transfers that could not leave yet.
class Deferring {
 public:
  /// Puts what the receiver is ready for by now; returns whether nothing is left to be put. A failure is the sender's
  /// own: it tells whoever must know, and leaves nothing.
  virtual bool flush_or_fail() noexcept = 0;

 protected:
  ~Deferring() = default;

 private:
  friend class DeferredList;
  std::atomic<bool> queued_{false};
  Deferring* next_queued_ = nullptr;
};

/// Pushing takes no lock; the rest runs under the progress engine's lock.
class DeferredList {
 public:
  explicit DeferredList(Progress& progress) : progress_(progress) {}

  /// Any thread. A sender that is in the list already stays where it is.
  void push(Deferring& sender);
  /// A step of the progress engine: lets each sender put what it can.
  bool flush();
  /// Takes `sender` out, before it is freed.
  void remove(Deferring& sender);

 private:
  Deferring* take_all();

  Progress& progress_;
  std::atomic<Deferring*> head_{nullptr};
};

}  // namespace partita
