#include "bench/results.hpp"

#include <fmt/format.h>
#include <partita/partita.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/support/revision.hpp"
#include "bench/failure.hpp"

namespace partita::bench {

namespace {

std::string_view shown_link(const Row& row) {
  return row.link.link.empty() ? "-" : std::string_view(row.link.link);
}

std::string heading(const Results& results) {
  const DelayShape& delay = results.options.delay;
  const apps::Machine& machine = results.origin.machine;
  std::string text = fmt::format("# partita bench {}: {} | {} | {} cores | medians in {}\n", results.benchmark,
                                 machine.mpi, machine.cpu, machine.cores, results.unit);
  if (results.origin.on_gpu) {
    text += fmt::format("# {} buffers; {} GPUs: {}\n", results.mixes_memories ? "host and GPU" : "GPU", machine.gpus,
                        machine.gpu);
  }
  if (delay.compute_us > 0) {
    text += fmt::format("# {} threads compute {} us, delay {}, noise {} %\n", results.options.threads, delay.compute_us,
                        name(delay.kind), delay.noise_percent);
  }
  for (const apps::RankPlace& place : results.origin.binding) {
    text += fmt::format("# rank {}: node {}, cores {}{}{}\n", place.rank, place.node, place.cores,
                        place.gpu.empty() ? "" : ", GPU ", place.gpu);
  }
  for (const std::string& note : results.notes) text += fmt::format("# {}\n", note);
  return text;
}

std::string_view placement(bool on_gpu, bool mixes_memories) {
  if (!on_gpu) return "H H";
  return mixes_memories ? "mixed" : "D D";
}

nlohmann::ordered_json options_json(const Options& options, bool on_gpu, bool mixes_memories) {
  std::vector<std::string> faces;
  faces.reserve(options.faces.size());
  for (const Face face : options.faces) faces.emplace_back(face == Face::c ? "c" : "mpi");
  std::vector<std::string> peers;
  peers.reserve(options.peers.size());
  for (const std::string& peer : options.peers) {
    if (peer == "native" || peer == "isend") {
      peers.push_back(peer);
    } else {
      const PeerLibrary library = parse_peer_library(peer);
      peers.push_back("library:" + library.shown(std::filesystem::path(library.path).filename().string()));
    }
  }
  nlohmann::ordered_json json{{"min_bytes", options.min_bytes},
                              {"max_bytes", options.max_bytes},
                              {"iterations", options.iterations},
                              {"warmup", options.warmup},
                              {"batch", options.batch},
                              {"check_every_sample", options.check_every_sample},
                              {"window", options.window},
                              {"partitions", options.partitions},
                              {"threads", options.threads},
                              {"delay", name(options.delay.kind)},
                              {"compute_us", options.delay.compute_us},
                              {"noise_percent", options.delay.noise_percent},
                              {"seed", options.seed},
                              {"memory", name(options.memory)},
                              {"faces", faces},
                              {"links", options.links},
                              {"transport_partitions", options.transport_partitions},
                              {"peers", peers},
                              {"placement", placement(on_gpu, mixes_memories)}};
  if (options.split) json["split"] = true;
  if (options.close_epochs > 0) json["close_epochs"] = options.close_epochs;
  if (on_gpu) {
    json["device"] = options.device;
    json["blocks"] = options.blocks;
    json["block_threads"] = options.block_threads;
    json["algorithms"] = options.algorithms;
    json["nccl"] = options.nccl.substr(options.nccl.find_last_of('/') + 1);
    json["nvshmem"] = options.nvshmem.substr(options.nvshmem.find_last_of('/') + 1);
  }
  return json;
}

/// To 0.0001 of the unit, below any timer's resolution: shorter files.
std::vector<double> rounded(std::vector<double> samples) {
  for (double& sample : samples) sample = std::round(sample * 1e4) / 1e4;
  return samples;
}

nlohmann::ordered_json row_json(const Row& row) {
  const Statistics& s = row.statistics;
  nlohmann::ordered_json json{{"bytes", row.size_bytes},
                              {"partitions", row.partitions},
                              {"subject", row.subject},
                              {"reference", row.reference},
                              {"link", row.link.link},
                              {"link_reason", row.link.reason},
                              {"transport_partitions", row.link.transport_partitions},
                              {"gpu_copy", row.link.gpu_copy},
                              {"batch", row.batch},
                              {"median", s.median},
                              {"p99", s.p99},
                              {"spread_percent", s.spread_percent},
                              {"min", s.min},
                              {"max", s.max},
                              {"mean", s.mean},
                              {"deviation", s.deviation},
                              {"metric", row.metric}};
  if (row.early) json["early"] = *row.early;
  if (row.bus_gb_per_s) json["bus_gb_per_s"] = *row.bus_gb_per_s;
  json["samples"] = rounded(row.samples);
  return json;
}

bool has_bus_bandwidth(const Results& results) {
  return std::ranges::any_of(results.rows, [](const Row& row) { return row.bus_gb_per_s.has_value(); });
}

/// The titles of the table's last columns.
std::string more_titles(const Results& results) {
  std::string text;
  if (!results.rows.empty() && results.rows.front().early) text += "       Early";
  if (has_bus_bandwidth(results)) text += "    Bus GB/s";
  if (results.shows_deviation) text += "    Mean +- deviation";
  return text;
}

/// What they hold beside the benchmark's figure.
std::string more_columns(const Row& row, bool shows_bus_bandwidth, bool shows_deviation) {
  std::string text;
  if (row.early) text += fmt::format("{:>12}", fmt::format("{} of {}", *row.early, row.statistics.count));
  if (shows_bus_bandwidth)
    text += fmt::format("{:>12}", row.bus_gb_per_s ? fmt::format("{:.4g}", *row.bus_gb_per_s) : "-");
  if (shows_deviation) text += fmt::format("{:>10.3f} +- {:.3f}", row.statistics.mean, row.statistics.deviation);
  return text;
}

}  // namespace

std::string to_table(const Results& results) {
  std::size_t subject_width = 12;
  for (const Row& row : results.rows) subject_width = std::max(subject_width, row.subject.size());
  const std::size_t metric_width = std::max<std::size_t>(results.metric_title.size(), 9);
  const bool shows_bus_bandwidth = has_bus_bandwidth(results);
  bool unreadable = false;

  std::string text = heading(results);
  text += fmt::format("{:<11}{:>10}  {:<{}}{:>7}{:>8}{:>12}{:>12}{:>9}  {:>{}}{}\n", "# Size", "Partitions", "Subject",
                      subject_width, "Link", "Batch", "Median", "P99", "Spread%", results.metric_title, metric_width,
                      more_titles(results));
  for (const Row& row : results.rows) {
    text += fmt::format("{:<11}{:>10}  {:<{}}{:>7}{:>8}{:>12.3f}{:>12.3f}{:>9.1f}{} {:>{}.3f}{}\n", row.size_bytes,
                        row.partitions, row.subject, subject_width, shown_link(row), row.batch, row.statistics.median,
                        row.statistics.p99, row.statistics.spread_percent, row.statistics.readable() ? ' ' : '~',
                        row.metric, metric_width, more_columns(row, shows_bus_bandwidth, results.shows_deviation));
    unreadable = unreadable || !row.statistics.readable();
  }
  if (unreadable) {
    text += fmt::format(
        "# ~: a spread of more than {:.0f} % of the median; measure again on a machine with nothing else to do\n",
        Statistics::readable_spread_percent);
  }
  return text;
}

std::string to_csv(const Results& results) {
  std::string text =
      "benchmark,unit,bytes,partitions,threads,subject,reference,link,transport_partitions,batch,samples,"
      "median,p99,spread_percent,min,max,metric_name,metric,bus_gb_per_s\n";
  for (const Row& row : results.rows) {
    const Statistics& s = row.statistics;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", results.benchmark, results.unit,
                    row.size_bytes, row.partitions, results.options.threads, row.subject, row.reference, row.link.link,
                    row.link.transport_partitions, row.batch, s.count, s.median, s.p99, s.spread_percent, s.min, s.max,
                    results.metric_title, row.metric, row.bus_gb_per_s ? fmt::format("{}", *row.bus_gb_per_s) : "");
  }
  return text;
}

nlohmann::ordered_json to_json(const Results& results) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : results.rows) rows.push_back(row_json(row));
  nlohmann::ordered_json json{
      {"schema", apps::schema_version},
      {"benchmark", results.benchmark},
      {"unit", results.unit},
      {"metric", results.metric_title},
      {"partita", fmt::format("{}.{}.{}", PARTITA_VERSION_MAJOR, PARTITA_VERSION_MINOR, PARTITA_VERSION_PATCH)},
      {"revision", apps::revision()}};
  json.update(apps::origin_json(results.origin));
  json.update(
      {{"ranks", results.ranks},
       {"timer",
        {{"clock", "monotonic"}, {"resolution_ns", results.timer.resolution_ns}, {"cost_ns", results.timer.cost_ns}}},
       {"options", options_json(results.options, results.origin.on_gpu, results.mixes_memories)},
       {"notes", results.notes},
       {"rows", rows}});
  return json;
}

void write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Failure("The file {} cannot be written.", file);
}

}  // namespace partita::bench
