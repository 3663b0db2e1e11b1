// The runs as JSON, for figures that have to be traced back to what was measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/jacobi2d/options.hpp"
#include "apps/jacobi2d/plate.hpp"
#include "apps/jacobi2d/report.hpp"
#include "apps/support/origin.hpp"

namespace jacobi2d {

/// Writes `origin`, the job, the options in force and every run of every mode (times in seconds) to `path`. Rank 0
/// calls it. Throws std::runtime_error with a sentence if that fails.
void write_record(const partita::apps::Origin& origin, const Plate& plate, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path);

}  // namespace jacobi2d
