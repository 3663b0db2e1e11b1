// The runs as JSON, for figures that have to be traced back to what was measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/life/board.hpp"
#include "apps/life/options.hpp"
#include "apps/life/report.hpp"
#include "apps/support/origin.hpp"

namespace life {

/// Writes `origin`, the job, the options in force and every run of every mode (times in seconds) to `path`. Rank 0
/// calls it. Throws std::runtime_error with a sentence if that fails.
void write_record(const partita::apps::Origin& origin, const Board& board, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path);

}  // namespace life
