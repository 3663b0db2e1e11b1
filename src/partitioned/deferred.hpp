// The sends that have partitions which could not leave yet, so that the progress engine need not look at all others.
#pragma once

#include <atomic>

namespace partita {

class Progress;
class SendRequest;

/// Pushing takes no lock; the rest runs under the progress engine's lock.
class DeferredList {
 public:
  explicit DeferredList(Progress& progress) : progress_(progress) {}

  /// Any thread. A request that is in the list already stays where it is.
  void push(SendRequest& request);
  /// A step of the progress engine: lets each request put what it can.
  bool flush();
  /// Takes `request` out, before it is freed.
  void remove(SendRequest& request);

 private:
  SendRequest* take_all();

  Progress& progress_;
  std::atomic<SendRequest*> head_{nullptr};
};

}  // namespace partita
