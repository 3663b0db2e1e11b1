// `partita report`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/svg_chart.hpp"

namespace partita::bench {

/// A chart and the name of the file it belongs in.
struct NamedChart {
  std::string name;  ///< without a folder or an ending
  Chart chart;
};

/// One chart for each partition count in what `partita bench --json` wrote, or a single one where the size fixes the
/// count; `stem` begins their names.
/// Throws nlohmann::json::exception where `results` is something else.
std::vector<NamedChart> charts_of(const nlohmann::ordered_json& results, const std::string& stem);

/// Runs `partita report FILES… --output DIR`; argv[0] is "report". Draws each result file as SVG charts in DIR, which
/// it makes. Needs no MPI; of several ranks the first one draws. Returns the exit status: 0, 1 where a file cannot be
/// read or written, 2 for wrong options.
int report(int argc, char** argv);

}  // namespace partita::bench
