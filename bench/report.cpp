#include "bench/report.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/failure.hpp"
#include "bench/results.hpp"

namespace partita::bench {

namespace {

using Json = nlohmann::ordered_json;

Json read_results(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw Failure("{} cannot be read.", file);
  const Json results = Json::parse(in, nullptr, false);
  if (results.is_discarded()) throw Failure("{} is not JSON.", file);
  return results;
}

Series& series_named(Chart& chart, const std::string& name) {
  const auto found =
      std::find_if(chart.series.begin(), chart.series.end(), [&](const Series& s) { return s.name == name; });
  if (found != chart.series.end()) return *found;
  return chart.series.emplace_back(Series{name, {}});
}

/// `partitions` in words: "8 partitions", "1 to 32768 partitions by size".
Chart empty_chart(const Json& results, const std::string& partitions) {
  const std::string unit = results.at("unit");
  const Json& options = results.at("options");
  Chart chart;
  chart.title = fmt::format("{}, {}", results.at("benchmark").get<std::string>(), partitions);
  chart.subtitle =
      fmt::format("{}, {}, {} cores", results.at("machine").at("mpi").get<std::string>(),
                  results.at("machine").at("cpu").get<std::string>(), results.at("machine").at("cores").get<int>());
  if (options.at("compute_us").get<double>() > 0) {
    chart.subtitle += fmt::format("; {} threads compute {:g} us, {} {:g} %", options.at("threads").get<int>(),
                                  options.at("compute_us").get<double>(), options.at("delay").get<std::string>(),
                                  options.at("noise_percent").get<double>());
  }
  chart.y_title = "median in " + unit;
  chart.log_y = unit != "%";
  return chart;
}

/// The one partition count of each size, where the benchmark takes it from the size; empty where counts were asked for,
/// of which every size that they divide has all.
std::map<std::int64_t, int> partitions_by_size(const Json& rows) {
  std::map<std::int64_t, int> found;
  std::set<int> counts;
  for (const Json& row : rows) {
    const int partitions = row.at("partitions");
    counts.insert(partitions);
    if (found.emplace(row.at("bytes"), partitions).first->second != partitions) return {};
  }
  if (counts.size() < 2) found.clear();
  return found;
}

NamedChart chart_over_sizes(const Json& results, const std::string& stem, const std::map<std::int64_t, int>& counts) {
  const auto [least, most] =
      std::minmax_element(counts.begin(), counts.end(), [](auto a, auto b) { return a.second < b.second; });
  return {stem, empty_chart(results, fmt::format("{} to {} partitions by size", least->second, most->second))};
}

void add_point(Chart& chart, const Json& row) {
  series_named(chart, row.at("subject")).points.push_back({row.at("bytes"), row.at("median")});
}

void draw(const std::string& file, const std::filesystem::path& folder) {
  const Json results = read_results(file);
  std::vector<NamedChart> charts;
  try {
    charts = charts_of(results, std::filesystem::path(file).stem().string());
  } catch (const Json::exception& error) {
    throw Failure("{} is not what partita bench --json writes: {}.", file, error.what());
  }
  for (const NamedChart& named : charts) {
    const std::string target = (folder / (named.name + ".svg")).string();
    write_file(target, to_svg(named.chart));
    fmt::print("{}\n", target);
  }
}

/// Also of a process that no MPI runs in.
bool is_first_rank() {
  int running = 0;
  int rank = 0;
  check(PMPI_Initialized(&running), "MPI_Initialized");
  if (running != 0) check(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank == 0;
}

}  // namespace

std::vector<NamedChart> charts_of(const Json& results, const std::string& stem) {
  const Json& rows = results.at("rows");
  std::vector<NamedChart> charts;
  if (const auto counts = partitions_by_size(rows); !counts.empty()) {
    charts.push_back(chart_over_sizes(results, stem, counts));
    for (const Json& row : rows) add_point(charts.front().chart, row);
    return charts;
  }
  for (const Json& row : rows) {
    const int partitions = row.at("partitions");
    const std::string name = fmt::format("{}-{}-partitions", stem, partitions);
    auto place =
        std::find_if(charts.begin(), charts.end(), [&](const NamedChart& named) { return named.name == name; });
    if (place == charts.end()) {
      place = charts.insert(charts.end(), {name, empty_chart(results, fmt::format("{} partitions", partitions))});
    }
    add_point(place->chart, row);
  }
  return charts;
}

int report(int argc, char** argv) {
  if (!is_first_rank()) return 0;
  std::vector<std::string> files;
  std::string output;
  CLI::App app{"Draw what `partita bench --json` measured as SVG line charts", "partita report"};
  app.add_option("files", files, "Result files")->required();
  app.add_option("-o,--output", output, "Folder for the charts")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "partita report: {}; partita report --help lists the options\n", error.what());
    return 2;
  }

  try {
    std::filesystem::create_directories(output);
    for (const std::string& file : files) draw(file, output);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "partita report: {}\n", error.what());
    return 1;
  }
}

}  // namespace partita::bench
