// What the benchmarks that are made of an app on GPUs share: its modes are their contenders.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measurement.hpp"
#include "program/command.hpp"

namespace partita::program {

/// The library for mode nccl by --nccl; empty: the usual names.
inline std::string nccl_path(const bench::Options& options) {
  return options.nccl == "auto" || options.nccl == "none" ? std::string() : options.nccl;
}

/// Those of `modes` that the job can run; says which are left out. `problem_with(mode)` is the app's word. Throws
/// Failure where --nccl names a library and mode nccl cannot run. Collective.
template <class ProblemWith>
std::vector<std::string> possible_modes(const bench::Job& job, std::span<const std::string_view> modes,
                                        const ProblemWith& problem_with) {
  std::vector<std::string> possible;
  for (const std::string_view mode : modes) {
    if (mode == "nccl" && job.options.nccl == "none") continue;
    if (const auto problem = problem_with(mode)) {
      if (mode == "nccl" && job.options.nccl != "auto") throw bench::Failure("{}.", *problem);
      complain(fmt::format("partita bench: left out: {}\n", *problem));
      continue;
    }
    possible.emplace_back(mode);
  }
  return possible;
}

/// Options that mean nothing to them.
inline std::vector<std::string_view> lacked_by_apps() {
  return {"--window", "--partitions",    "--threads", "--delay",     "--compute-us", "--noise-percent",
          "--memory", "--face",          "--peer",    "placement",   "--link",       "--transport-partitions",
          "--blocks", "--block-threads", "--nvshmem", "--algorithms"};
}

}  // namespace partita::program
