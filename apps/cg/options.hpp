// The command line of cg.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/cg/exchange.hpp"
#include "apps/cg/problem.hpp"
#include "apps/cg/solver.hpp"
#include "apps/support/exit.hpp"

namespace cg {

using partita::apps::Exit;

/// The largest tolerance whose solutions can be compared with one rank's.
inline constexpr double checkable_tolerance = 1e-11;

struct Options {
  bool gpu = false;
  std::vector<std::string> modes;  ///< in the order in which they are shown
  bool all_modes = true;
  Problem problem{256, 256};
  Limits limits{100'000, 20, 1e-12};
  std::string sums = "auto";  ///< who does enqueued allreduces on GPUs: auto, kernels, engine
  int repeat = 1;
  std::uint64_t order_seed = 1;  ///< of the modes, for each repeat
  bool verify = true;
  bool json = false;
  std::string output = "cg";
};

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace cg
