// The runs as JSON, for figures that have to be traced back to what was measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/cg/options.hpp"
#include "apps/cg/report.hpp"
#include "apps/support/origin.hpp"

namespace cg {

/// Writes `origin`, the job, the options in force, every run of every mode (times in seconds) and the mean time of an
/// iteration to `path`. `device`: where the ranks computed. Rank 0 calls it. Throws std::runtime_error with a sentence
/// if that fails.
void write_record(const partita::apps::Origin& origin, MPI_Comm comm, const std::string& device, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path);

}  // namespace cg
