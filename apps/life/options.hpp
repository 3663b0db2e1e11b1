// The command line of life.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/life/rules.hpp"
#include "apps/support/exit.hpp"

namespace life {

using partita::apps::Exit;

struct Options {
  std::vector<std::string> modes;  ///< in the order in which they are shown
  bool all_modes = true;           ///< that can run
  bool gpu = false;                ///< the board lies in GPU memory
  Game game{512, 512, Boundary::periodic, 35, 1};
  int rank_rows = 0, rank_columns = 0;  ///< both 0: the MPI divides the ranks
  int generations = 1000;
  int partitions = 8;  ///< of each edge, in mode partitioned
  int repeat = 1;
  std::uint64_t order_seed = 1;  ///< of the modes, for each repeat
  bool verify = true;
  bool picture = true;
  bool json = false;
  std::string output = "life";
};

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace life
