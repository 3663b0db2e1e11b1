// What all ways of exchanging the halo share: the loop, when it ends, its clocks, and its outcome.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/jacobi2d/plate.hpp"
#include "apps/jacobi2d/stencil.hpp"

namespace jacobi2d {

/// When to stop. The residual is the largest change of a cell in one iteration, in degrees, over all ranks.
struct Limits {
  int max_iterations = 0;
  double tolerance = 0.0;  ///< stop when the residual is at most this; 0 runs all iterations
  int check_every = 1;     ///< iterations between two looks at the residual
};

/// The residual at one look.
struct Residual {
  int iteration = 0;
  double residual = 0.0;
  double time_s = 0.0;  ///< since the first iteration began, on rank 0
};

/// The result of a run; the field of the last iteration is Plate::field(iterations % 2).
struct Outcome {
  int iterations = 0;
  bool converged = false;
  double time_s = 0.0;       ///< of the iterations on this rank, between two barriers
  double halo_time_s = 0.0;  ///< of it, in communication calls of the halo exchange, see HaloClock
  double setup_s = 0.0;      ///< before them, to prepare the communication; GPU modes only
  double sweep_s = 0.0;      ///< what an iteration would take without a halo; mode traditional on GPUs only
  std::vector<Residual> history;
};

/// Adds up the time that a rank spends in communication calls. Time of a single thread while the others wait for it
/// counts whole; time within a parallel region counts by its share, one thread of `threads`.
class HaloClock {
 public:
  class Scope {
   public:
    explicit Scope(HaloClock& clock) : clock_(clock), begin_(Clock::now()) {}
    ~Scope() { clock_.add(Clock::now() - begin_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    HaloClock& clock_;
    Clock::time_point begin_;
  };

  HaloClock();

  /// Counts the time until the returned object ends. Any thread of the rank.
  Scope measure() { return Scope(*this); }
  double seconds() const;

 private:
  struct alignas(64) Slot {
    std::chrono::nanoseconds time{0};
  };

  void add(std::chrono::nanoseconds time);

  std::vector<Slot> in_parallel_;  ///< per thread
  std::chrono::nanoseconds alone_{0};
};

/// One iteration: computes the other field from field `from`; returns the largest change on this rank if asked to
/// measure it.
using Step = std::function<double(int from, Measure measure)>;

/// Repeats `step` from the state after Plate::reset until the limits say stop. Collective. On long runs
/// rank 0 reports progress to standard error under the name `mode`. Outcome::halo_time_s is the caller's to fill in.
Outcome iterate(const Plate& plate, const Limits& limits, const std::string& mode, const Step& step);

}  // namespace jacobi2d
