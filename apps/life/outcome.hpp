// How a game went.
#pragma once

namespace life {

/// On one rank.
struct Outcome {
  int generations = 0;
  double time_s = 0.0;   ///< of all steps, between two barriers
  double halo_s = 0.0;   ///< of it, to pack, exchange and unpack the halo; on GPUs what the steps alone do not take
  double setup_s = 0.0;  ///< before it, from a barrier on, to make and match the requests, and graphs of them
};

}  // namespace life
