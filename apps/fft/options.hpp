// The command line of fft.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/fft/problem.hpp"
#include "apps/support/exit.hpp"

namespace fft {

using partita::apps::Exit;

struct Options {
  bool gpu = false;
  std::vector<std::string> exchanges;  ///< each behind its staged twin, if that was asked for
  Problem problem;
  int iterations = 10;
  int repeat = 1;
  std::uint64_t order_seed = 1;  ///< of the exchanges, for each repeat
  std::string cufft;             ///< the library's path; empty: the usual names
  bool verify = true;
  bool json = false;
  std::string output = "fft";
};

/// Reads the options; argv[0] is the app's name. Every rank reads the same ones and comes to the same result.
std::variant<Options, Exit> read_options(int argc, const char* const* argv);

}  // namespace fft
