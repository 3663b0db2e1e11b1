// The command line of jacobi2d.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/support/exit.hpp"

namespace jacobi2d {

/// Partitions of each halo on the CPU, unless the user says otherwise.
inline constexpr int cpu_partitions = 8;

struct Options {
  bool gpu = false;                ///< on GPUs, one process a GPU
  std::vector<std::string> modes;  ///< in the order in which they are shown
  bool all_modes = false;          ///< as many of them as can run here
  int rows = 512, columns = 512;
  int rank_rows = 0, rank_columns = 0;  ///< both 0: the MPI divides the ranks
  double tolerance = 1e-4;
  int max_iterations = 20000;
  int check_every = 100;
  int multiplier = 0;  ///< not 0: the size follows from it and from the ranks
  int partitions = 0;  ///< of each halo; 0: 8, on GPUs by length
  int threads = 0;     ///< 0: see thread_count
  int repeat = 1;
  std::uint64_t order_seed = 1;  ///< of the modes, for each repeat
  bool warm_up = true;
  bool verify = true;
  bool gpu_reference = false;  ///< the solution to compare with is computed by one GPU, not by one rank's threads
  bool picture = true;
  bool json = false;
  std::string output = "jacobi2d";
  std::string device_name;  ///< of the GPUs, found out at the start
  std::string nccl;         ///< path of the library; empty: the usual names
};

using partita::apps::Exit;

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace jacobi2d
