// The command line of bce.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/bce/model.hpp"
#include "apps/bce/modes.hpp"
#include "apps/support/exit.hpp"

namespace bce {

using partita::apps::Exit;

struct Options {
  std::vector<std::string> modes;  ///< in the order in which they are shown
  bool all_modes = true;           ///< those that cannot run are left out
  bool gpu = false;
  std::string nccl;  ///< its library's path; empty: the usual names
  Problem problem{.samples = 2048, .features = 2048, .seed = 1, .rate = 1.0};
  int steps = 200;
  int partitions = 16;  ///< wanted, of the gradient
  int threads = 0;      ///< of each rank; 0: as many as there are cores
  int repeat = 1;
  std::uint64_t order_seed = 1;  ///< of the modes, for each repeat
  bool verify = true;
  bool json = false;
  std::string output = "bce";
};

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace bce
