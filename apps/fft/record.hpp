// The runs as JSON, for figures that have to be traced back to what was measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/fft/options.hpp"
#include "apps/fft/report.hpp"
#include "apps/fft/ways.hpp"
#include "apps/support/origin.hpp"

namespace fft {

/// Writes `origin`, the job, the options in force and every run of every exchange (times in seconds) to `path`.
/// `device`: where the ranks computed. `way`: null where that is in host memory. `notes`: what has been said of the
/// comparison. Rank 0 calls it. Throws std::runtime_error with a sentence if that fails.
void write_record(const partita::apps::Origin& origin, MPI_Comm comm, const std::string& device,
                  const GpuMemoryWay* way, const Options& options, Against against,
                  const std::vector<std::string>& notes, const std::map<std::string, std::vector<Result>>& runs,
                  const std::string& path);

}  // namespace fft
