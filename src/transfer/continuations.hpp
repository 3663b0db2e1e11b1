// What goes on once a transfer has come so far: arrive → reduce → complete the next one.
#pragma once

#include "core/continuation.hpp"
#include "transfer/incoming.hpp"
#include "transfer/outgoing.hpp"

namespace partita {

/// Goes on once transport partitions of an epoch have arrived: their bytes are visible to go_on(). It fails where they
/// cannot arrive any more; the half has failed then, or the other side has ended. The epoch is open while it waits.
class AfterArrival : public Continuation {
 public:
  AfterArrival(Progress& progress, Incoming& half) : Continuation(progress), half_(half) {}
  /// Waits for `transports` of the open epoch, matched or not.
  void await(link::Range transports);

 protected:
  ~AfterArrival() = default;

 private:
  bool reached() final;
  bool have_arrived();

  Incoming& half_;
  link::Range transports_;
};

/// Goes on once everything of an epoch has left: the buffer may be written again. As above. Nobody else asks the half
/// meanwhile whether it has finished.
class AfterLeaving : public Continuation {
 public:
  AfterLeaving(Progress& progress, Outgoing& half) : Continuation(progress), half_(half) {}
  /// Waits for the end of the open epoch, matched or not.
  void await() { arm(); }

 protected:
  ~AfterLeaving() = default;

 private:
  bool reached() final;

  Outgoing& half_;
};

}  // namespace partita
