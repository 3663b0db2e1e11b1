// What a run found, and how it is written: a text table, CSV, JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/support/origin.hpp"
#include "bench/clock.hpp"
#include "bench/options.hpp"
#include "bench/statistics.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

/// One contender at one size and partition count.
struct Row {
  std::int64_t size_bytes = 0;
  int partitions = 0;
  std::string subject;
  std::string reference;
  LinkUsed link;
  int batch = 1;                ///< operations in each sample
  std::vector<double> samples;  ///< values in the benchmark's unit, in the order of measuring
  Statistics statistics;
  double metric = 0;
  std::optional<int> early;            ///< samples that came before the benchmark's moment, where it has one
  std::optional<double> bus_gb_per_s;  ///< bus bandwidth (bus_bytes.hpp) at the median, of collectives
};

struct Results {
  std::string benchmark;
  std::string unit;
  std::string metric_title;
  Options options;
  apps::Origin origin;  ///< with Job::versions
  Timer timer;
  bool shows_deviation = false;
  int ranks = 2;
  std::vector<std::string> notes;  ///< sentences on what was left out or is to be kept in mind
  std::vector<Row> rows;
  bool mixes_memories = false;  ///< rows are of host or GPU memory, as their subjects say
};

std::string to_table(const Results& results);
std::string to_csv(const Results& results);
nlohmann::ordered_json to_json(const Results& results);

/// Writes `text` to `file`; Failure if that is not possible.
void write_file(const std::string& file, const std::string& text);

}  // namespace partita::bench
