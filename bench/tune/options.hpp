// The options of `partita tune`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/options.hpp"

namespace partita::bench::tune {

struct TuneOptions {
  bool on_gpu = false;                   ///< buffers in GPU memory, and kernels that move collectives are tried, too
  std::vector<std::string> collectives;  ///< their names; all that there is a choice for
  std::int64_t min_bytes = 64;           ///< of a block
  std::int64_t max_bytes = std::int64_t{1} << 20;
  int iterations = 50;  ///< rounds, in each of which every algorithm has one timed sample
  int warmup = 5;       ///< untimed rounds before them
  std::uint64_t seed = 1;
  std::string file;  ///< empty: standard output

  std::string command;  ///< for readers, without this machine's paths
};

/// Reads the arguments after "tune". Throws OptionError or HelpWanted.
TuneOptions parse_tune_options(std::span<const std::string> arguments);

/// The sizes that are measured, each four times the one before.
std::vector<std::int64_t> sizes_of(const TuneOptions& options);

}  // namespace partita::bench::tune
