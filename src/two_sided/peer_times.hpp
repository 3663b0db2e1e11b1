// Where the time of collectives by peer memory goes, for those who measure them.
#pragma once

#include <chrono>
#include <cstdint>

namespace partita {

/// Sums over calls on one rank, in nanoseconds; the parts are those of a call from its description on, one behind the
/// other.
struct PeerTimes {
  std::int64_t calls = 0;         ///< so many were made by peers; what the MPI makes is in no sum
  std::int64_t agreement_ns = 0;  ///< looking at its own memory, and waiting for what the others want
  std::int64_t naming_ns = 0;     ///< handles of its memory, and waiting for those of the others
  std::int64_t mapping_ns = 0;    ///< opening these, and waiting until the others have opened theirs
  std::int64_t work_ns = 0;       ///< the copies or the reduction, until this rank's GPU has done them
  std::int64_t ending_ns = 0;     ///< waiting for the GPUs of the others
};

/// Times one call.
class PeerLaps {
 public:
  using Part = std::int64_t PeerTimes::*;

  /// The first part begins. `times`: null where nobody measures; then nothing reads a clock.
  explicit PeerLaps(PeerTimes* times) : times_(times), last_ns_(times == nullptr ? 0 : now_ns()) {}
  /// `part` ends, and the next one begins.
  void end(Part part) {
    if (times_ == nullptr) return;
    const std::int64_t now = now_ns();
    call_.*part = now - last_ns_;
    last_ns_ = now;
  }
  /// The call has been made.
  void count() const {
    if (times_ == nullptr) return;
    ++times_->calls;
    for (const Part part : {&PeerTimes::agreement_ns, &PeerTimes::naming_ns, &PeerTimes::mapping_ns,
                            &PeerTimes::work_ns, &PeerTimes::ending_ns}) {
      times_->*part += call_.*part;
    }
  }

 private:
  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  PeerTimes* const times_;
  std::int64_t last_ns_;
  PeerTimes call_;
};

}  // namespace partita
