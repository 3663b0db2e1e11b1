// The command line of jacobi2d.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace jacobi2d {

struct Options {
  std::vector<std::string> modes;  ///< in the order in which they run
  int rows = 512, columns = 512;
  int rank_rows = 0, rank_columns = 0;  ///< both 0: the MPI divides the ranks
  double tolerance = 1e-4;
  int max_iterations = 20000;
  int check_every = 100;
  int partitions = 8;
  int threads = 0;  ///< 0: see thread_count
  int repeat = 1;
  bool verify = true;
  bool picture = true;
  bool json = false;
  std::string output = "jacobi2d";
};

/// The end of the program before any work: help (exit code 0) or what is wrong with the options (2).
struct Exit {
  int code = 0;
  std::string text;
};

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace jacobi2d
